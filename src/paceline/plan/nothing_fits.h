#pragma once

// Says why no plan fits, and the smallest change with which one would.

#include <string>

#include "paceline/model/plan.h"
#include "paceline/plan/scene.h"
#include "paceline/plan/wishes.h"

namespace paceline::plan {

// A rough lower limit of the bytes that a rank of this shape needs; the average if stages differ.
double NeedOf(const Scene& scene, const Shape& shape);

// "a rank needs 93.1 GiB, and H100-80G has 78.0 GiB", for a shape that does not fit.
std::string TooLargeText(const Scene& scene, const Shape& shape);

std::string WhyNothingFits(const Scene& scene, const Shape& shape);

// "24 devices instead of 8, or 93.1 GiB of memory a device instead of 78.0 GiB".
std::string SmallestChange(const ModelSummary& model, const Cluster& cluster,
                           const PlanWishes& wishes);

}  // namespace paceline::plan
