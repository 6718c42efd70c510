#include "paceline/core/goodput/told_time.h"

#include "gtest/gtest.h"

namespace paceline::core {
namespace {

constexpr size_t Number(TimePart part) { return static_cast<size_t>(part); }

// Of two ranks; each number is in milliseconds.
TimeAccounted Account(uint64_t generation, int64_t work, int64_t data, int64_t straggler = 0) {
  TimeAccounted fact{.generation = Generation(generation), .ranks = 2};
  fact.spent[Number(TimePart::kWork)] = work;
  fact.spent[Number(TimePart::kData)] = data;
  fact.spent[Number(TimePart::kStraggler)] = straggler;
  return fact;
}

PartSeconds Told(double work, double data, double evaluation = 0) {
  PartSeconds told = {};
  told[Number(TimePart::kWork)] = work;
  told[Number(TimePart::kData)] = data;
  told[Number(TimePart::kEvaluation)] = evaluation;
  return told;
}

double Of(const ClassSeconds& parts, TimeClass time_class) {
  return parts[static_cast<size_t>(time_class)];
}

TEST(ToldTime, ComparesWithTheRecordBefore) {
  ToldTime told;
  const auto first = told.Take(Account(1, 8000, 2000));
  ASSERT_TRUE(first.has_value());
  EXPECT_TRUE(first->is_first);
  EXPECT_DOUBLE_EQ(first->seconds[Number(TimePart::kWork)], 8);
  const auto second = told.Take(Account(1, 9500, 2500));
  ASSERT_TRUE(second.has_value());
  EXPECT_FALSE(second->is_first);
  EXPECT_DOUBLE_EQ(second->seconds[Number(TimePart::kWork)], 1.5);
  EXPECT_DOUBLE_EQ(second->seconds[Number(TimePart::kData)], 0.5);
  const auto next_world = told.Take(Account(2, 1000, 0));
  ASSERT_TRUE(next_world.has_value());
  EXPECT_TRUE(next_world->is_first);
  EXPECT_DOUBLE_EQ(next_world->seconds[Number(TimePart::kWork)], 1);
}

TEST(ToldTime, LeavesOutARecordOfFewerRanksAndOneOfAnOlderWorld) {
  ToldTime told;
  told.Take(Account(2, 8000, 2000));
  EXPECT_FALSE(told.Take(Account(2, 4000, 1000)).has_value());
  EXPECT_FALSE(told.Take(Account(1, 90'000, 0)).has_value());
  const auto whole = told.Take(Account(2, 9000, 2000));
  ASSERT_TRUE(whole.has_value());
  EXPECT_DOUBLE_EQ(whole->seconds[Number(TimePart::kWork)], 1);
}

// A new master hears of one rank first, whose time may be more than that of all at the last record.
TEST(ToldTime, LeavesOutOneOfTwoRanksAlthoughItsSumIsLarger) {
  ToldTime told;
  told.Take(Account(1, 8000, 2000));
  TimeAccounted one = Account(1, 40'000, 0);
  one.ranks = 1;
  EXPECT_FALSE(told.Take(one).has_value());
  const auto both = told.Take(Account(1, 80'000, 2000));
  ASSERT_TRUE(both.has_value());
  EXPECT_DOUBLE_EQ(both->seconds[Number(TimePart::kWork)], 72);
  // Where no other rank comes, the second record of fewer ranks counts.
  one.spent[Number(TimePart::kWork)] = 90'000;
  EXPECT_FALSE(told.Take(one).has_value());
  one.spent[Number(TimePart::kWork)] = 91'000;
  EXPECT_TRUE(told.Take(one).has_value());
}

TEST(ToldTime, ComparesNothingAcrossALostPartOfTheJournal) {
  ToldTime told;
  told.Take(Account(1, 8000, 2000));
  told.Forget();
  EXPECT_FALSE(told.Take(Account(1, 80'000, 2000))->is_known);
  const auto since = told.Take(Account(1, 81'000, 2000));
  ASSERT_TRUE(since.has_value());
  EXPECT_DOUBLE_EQ(since->seconds[Number(TimePart::kWork)], 1);
}

// Stragglers are found by comparison, so that a later sum may be smaller. Then it was work.
TEST(ToldTime, StragglersThatAreTakenBackWereWork) {
  ToldTime told;
  told.Take(Account(1, 8000, 0, 2000));
  const auto since = told.Take(Account(1, 11'000, 0, 1000));
  ASSERT_TRUE(since.has_value());
  EXPECT_DOUBLE_EQ(since->seconds[Number(TimePart::kWork)], 2);
  EXPECT_DOUBLE_EQ(since->seconds[Number(TimePart::kStraggler)], 0);
}

TEST(Divide, TakesFromAStretchWhatTheRanksTold) {
  double carry = 0;
  const ClassSeconds parts = Divide(Told(7, 1, 2), 10, &carry);
  EXPECT_DOUBLE_EQ(Of(parts, TimeClass::kDataWait), 1);
  EXPECT_DOUBLE_EQ(Of(parts, TimeClass::kEvaluation), 2);
  EXPECT_DOUBLE_EQ(Of(parts, TimeClass::kProductive), 0);
  EXPECT_DOUBLE_EQ(Of(parts, TimeClass::kUnknown), 0);
  EXPECT_DOUBLE_EQ(carry, 0);
}

TEST(Divide, WhatNobodyToldIsUnknown) {
  double carry = 0;
  EXPECT_DOUBLE_EQ(Of(Divide(Told(5, 1), 10, &carry), TimeClass::kUnknown), 4);
  EXPECT_DOUBLE_EQ(carry, 0);
}

TEST(Divide, TheExcessOfOneStretchFillsTheNext) {
  double carry = 0;
  EXPECT_DOUBLE_EQ(Of(Divide(Told(10, 1), 10, &carry), TimeClass::kUnknown), 0);
  EXPECT_DOUBLE_EQ(carry, 1);
  EXPECT_DOUBLE_EQ(Of(Divide(Told(8, 1), 10, &carry), TimeClass::kUnknown), 0);
  EXPECT_DOUBLE_EQ(carry, 0);
}

TEST(Divide, PartsNeverExceedTheStretch) {
  double carry = 0;
  const ClassSeconds parts = Divide(Told(1, 15, 5), 10, &carry);
  EXPECT_DOUBLE_EQ(Of(parts, TimeClass::kDataWait), 7.5);
  EXPECT_DOUBLE_EQ(Of(parts, TimeClass::kEvaluation), 2.5);
  EXPECT_DOUBLE_EQ(carry, 11);
}

// As one that uses no torch: it stays in the phase with which it began.
TEST(Divide, AScriptWithoutPhasesWorks) {
  PartSeconds told = {};
  told[Number(TimePart::kStart)] = 10;
  double carry = 0;
  for (const double part : Divide(told, 10, &carry)) EXPECT_DOUBLE_EQ(part, 0);
}

}  // namespace
}  // namespace paceline::core
