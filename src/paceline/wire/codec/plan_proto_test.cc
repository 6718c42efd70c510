// Parallel plans in messages and records: their texts are longer than any other text.

#include "paceline/wire/codec/plan_proto.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "paceline/wire/codec/from_proto.h"
#include "paceline/wire/codec/journal_codec.h"

namespace paceline::wire {
namespace {

PlanNote FullNote() {
  return {.generation = Generation(7),
          .summary = std::string(kPlanNoteTextMax, 's'),
          .wishes = std::string(kPlanNoteTextMax, 'w'),
          .cluster = std::string(kPlanNoteTextMax, 'c'),
          .plan = std::string(kPlanNotePlanMax, 'p'),
          .words = "data 2",
          .because = "it is chosen for these devices",
          .step = 0.125,
          .moves = true};
}

TEST(PlanMessages, KeepLongTextsWhole) {
  pb::AgentMessage message;
  ToProto(AgentMessage(FullNote()), &message);
  const auto noted = FromProto(message);
  ASSERT_TRUE(noted.ok()) << noted.status();
  EXPECT_EQ(std::get<PlanNote>(*noted), FullNote());

  const PlanNote note = FullNote();
  const core::ParallelPlanChosen chosen{.generation = note.generation,
                                        .words = note.words,
                                        .before = "data 3",
                                        .because = note.because,
                                        .step = note.step,
                                        .plan = note.plan,
                                        .cluster = note.cluster};
  const auto plan = DecodeFact(EncodeFact(chosen));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(std::get<core::ParallelPlanChosen>(*plan), chosen);
  const core::ModelDescribed described{"llama", 7, 8, note.summary, note.wishes};
  const auto model = DecodeFact(EncodeFact(described));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(std::get<core::ModelDescribed>(*model), described);

  JobStatus status;
  status.plan = {7, "data 2", "a sentence", 0.125, note.plan};
  pb::JobStatus told;
  ToProto(status, &told);
  JobStatus heard;
  ASSERT_TRUE(FromProto(told, &heard).ok());
  EXPECT_EQ(heard.plan, status.plan);
}

TEST(PlanMessages, HostileOnesAreRefused) {
  const auto is_refused = [](PlanNote note) {
    pb::AgentMessage message;
    ToProto(AgentMessage(std::move(note)), &message);
    return !FromProto(message).ok();
  };
  EXPECT_FALSE(is_refused(FullNote()));
  PlanNote note = FullNote();
  note.summary += 's';
  EXPECT_TRUE(is_refused(note));
  note = FullNote();
  note.wishes += 'w';
  EXPECT_TRUE(is_refused(note));
  note = FullNote();
  note.cluster += 'c';
  EXPECT_TRUE(is_refused(note));
  note = FullNote();
  note.plan += 'p';
  EXPECT_TRUE(is_refused(note));
  note = FullNote();
  note.step = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(is_refused(note));
  note.step = -1;
  EXPECT_TRUE(is_refused(note));
}

}  // namespace
}  // namespace paceline::wire
