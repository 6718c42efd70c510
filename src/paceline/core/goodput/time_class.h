#pragma once

// What the slots of a job's nodes do with their time. A slot is the place of one rank. At each
// moment each slot of each joined node is in one class. The names in JSON are those of Google's
// ml-goodput-measurement where that library has the class.

#include <array>
#include <cstddef>
#include <string_view>

namespace paceline::core {

enum class TimeClass {
  kProductive,  // steps that no later attempt repeated
  // These four stood within such steps, or between them. Only the ranks' phases tell them apart.
  kEvaluation,
  kCheckpointStall,  // the script stood still for a save
  kDataWait,         // in the loader
  kStragglerWait,    // for ranks that take longer
  kRedone,           // steps that were lost, or their repetition
  kDetection,        // from the last step, or sign of life, to the record of the failure
  kHang,             // of a hang that was named and not acted on: from the last sign of life on
  kDecision,         // from the end of a world to the forming of the next one
  kWaiting,          // below the minimum: for nodes
  kFirstStart,       // from the forming of the first world to its first step
  kRestart,          // the same for later worlds
  kRestore,          // the part of both that loads a checkpoint,
  kCompile,          // and that in which torch compiles; also compilation between steps
  kStopping,         // from the decision to stop to the end of the job
  kSpare,            // of nodes without a seat
  kUnknown,          // nobody recorded it
};
inline constexpr size_t kTimeClasses = 17;

struct TimeClassText {
  TimeClass time_class;
  std::string_view name;   // in JSON
  std::string_view words;  // for people
  std::string_view hint;   // what the time was spent on
};
// In the order in which a report shows them.
const std::array<TimeClassText, kTimeClasses>& TimeClassTexts();

}  // namespace paceline::core
