#include "paceline/ps/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "paceline/base/prng.h"
#include "paceline/ps/optimizer/kernel.h"

namespace paceline::ps {
namespace {

const char* const kAllNames[] = {"sgd", "adagrad", "adam"};

// From 2^-20 to 2^20, of both signs, and now and then 0.
float AnyFloat(Prng* prng) {
  if (prng->Chance(1, 20)) return 0;
  const auto fraction = static_cast<float>(prng->Between(1 << 20, 1 << 21)) / (1 << 20);
  const float value = std::ldexp(fraction, static_cast<int>(prng->Between(-20, 20)));
  return prng->Chance(1, 2) ? value : -value;
}

struct TwoRows {
  TwoRows(const Optimizer& optimizer, const OptimizerSpec& spec, uint32_t dim, Prng* prng)
      : fast(dim + optimizer.state_floats(dim)) {
    for (uint32_t i = 0; i < dim; ++i) fast[i] = AnyFloat(prng);
    optimizer.init_state(spec, dim, fast.data() + dim);
    slow = fast;
  }
  std::vector<float> fast;
  std::vector<float> slow;
};

TEST(OptimizerTest, KernelsEqualTheirTwinsBitByBit) {
  Prng prng(1);
  for (const char* name : kAllNames) {
    const Optimizer& optimizer = *FindOptimizer(name);
    for (uint32_t dim = 1; dim <= 40; ++dim) {
      const OptimizerSpec spec{.name = name, .rate = 0.05, .epsilon = 1e-8, .initial = 0.1};
      TwoRows one(optimizer, spec, dim, &prng);
      TwoRows other(optimizer, spec, dim, &prng);
      for (int step = 0; step < 5; ++step) {
        std::vector<float> gradients(size_t{3} * dim);
        for (float& value : gradients) value = AnyFloat(&prng);
        std::array<float*, 3> fast = {one.fast.data(), nullptr, other.fast.data()};
        std::array<float*, 3> slow = {one.slow.data(), nullptr, other.slow.data()};
        optimizer.step(spec, dim, fast, gradients.data());
        optimizer.portable_step(spec, dim, slow, gradients.data());
        for (const TwoRows* rows : {&one, &other}) {
          ASSERT_EQ(std::memcmp(rows->fast.data(), rows->slow.data(), rows->fast.size() * 4), 0)
              << name << ", dim " << dim << ", step " << step;
        }
      }
    }
  }
}

// Two steps with the gradients 1 and -3, by hand in double precision.
float AfterTwoSteps(const OptimizerSpec& spec) {
  const Optimizer& optimizer = *FindOptimizer(spec.name);
  std::vector<float> row(1 + optimizer.state_floats(1));
  row[0] = 2;
  optimizer.init_state(spec, 1, row.data() + 1);
  std::array<float*, 2> rows = {row.data(), row.data()};
  const float gradients[] = {1, -3};
  optimizer.step(spec, 1, rows, gradients);
  return row[0];
}

TEST(OptimizerTest, StepsAreThoseOfTorch) {
  EXPECT_FLOAT_EQ(AfterTwoSteps({.name = "sgd", .rate = 0.5}), 2 - 0.5 + 1.5);
  EXPECT_FLOAT_EQ(AfterTwoSteps({.name = "adagrad", .rate = 0.5, .initial = 0}),
                  static_cast<float>(2 - 0.5 + 1.5 / std::sqrt(10.0)));
  // m: 0.1, -0.21; v: 0.001, 0.009999; corrections 0.1 and 0.001, then 0.19 and 0.001999.
  const double second = (-0.21 / 0.19) / (std::sqrt(0.009999 / 0.001999) + 1e-8);
  EXPECT_FLOAT_EQ(AfterTwoSteps({.name = "adam", .rate = 0.5, .epsilon = 1e-8}),
                  static_cast<float>(2 - 0.5 - 0.5 * second));
}

TEST(OptimizerTest, NumbersThatAreNotFiniteAreFoundAtEveryPlace) {
  std::vector<float> values(37, std::numeric_limits<float>::max());
  EXPECT_TRUE(AreFinite(values));
  EXPECT_TRUE(AreFinitePortable(values));
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {infinity, -infinity, std::nanf(""), -std::nanf("")}) {
    for (float& value : values) {
      const float before = std::exchange(value, bad);
      EXPECT_FALSE(AreFinite(values));
      EXPECT_FALSE(AreFinitePortable(values));
      value = before;
    }
  }
}

}  // namespace
}  // namespace paceline::ps
