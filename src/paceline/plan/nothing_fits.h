#pragma once

// Says why no plan fits, and the smallest change with which one would.

#include <string>

#include "paceline/model/plan.h"
#include "paceline/plan/scene.h"
#include "paceline/plan/wishes.h"

namespace paceline::plan {

// A rough lower limit of the bytes that a rank of this shape needs; the average if stages differ.
double NeedOf(const Scene& scene, const Shape& shape);

// "a rank needs at least 93.1 GiB, and the largest device has 78.0 GiB", for a shape that does not
// fit.
std::string TooLargeText(const Scene& scene, const Shape& shape);

// Why no plan fits, and with which change one would. Both speak of the same plan: the one that
// needs the least memory on its largest rank.
struct SmallestChange {
  std::string why;  // "even with pipeline 8, a rank needs 93.1 GiB, and …"
  std::string fix;  // "20 devices instead of 16, or 93.1 GiB of memory on the largest device …"
};

// `smallest`: the shape with the least need, for a model that no change helps.
SmallestChange ChangeThatFits(const Scene& scene, const Shape& smallest, const ModelSummary& model,
                              const PlanWishes& wishes);

}  // namespace paceline::plan
