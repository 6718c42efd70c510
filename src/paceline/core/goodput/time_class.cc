#include "paceline/core/goodput/time_class.h"

namespace paceline::core {

namespace {

constexpr std::array<TimeClassText, kTimeClasses> kTexts = {{
    {TimeClass::kProductive, "productive", "productive", "steps that count"},
    {TimeClass::kEvaluation, "evaluation", "evaluation", "an evaluation ran"},
    {TimeClass::kCheckpointStall, "unproductive_checkpoint_save", "checkpoint stall",
     "the script stood still for a save"},
    {TimeClass::kDataWait, "data_loading_sync", "data wait", "the script waited for its loader"},
    {TimeClass::kStragglerWait, "straggler_wait", "straggler wait",
     "in collectives, longer than the rank that waited least"},
    {TimeClass::kRedone, "wasted_progress", "redone", "steps that a failure cost"},
    {TimeClass::kDetection, "detection", "detection", "until a failure was noticed"},
    {TimeClass::kHang, "hang", "hang", "ranks waited for one that stood still"},
    {TimeClass::kDecision, "decision", "decision", "between two worlds"},
    {TimeClass::kWaiting, "waiting_for_nodes", "waiting", "for nodes to join"},
    {TimeClass::kFirstStart, "program_startup", "first start", "until the first step"},
    {TimeClass::kRestart, "infrastructure_recovery", "restart",
     "from a new world to its first step"},
    {TimeClass::kRestore, "unproductive_checkpoint_restore", "restore", "a checkpoint was loaded"},
    {TimeClass::kCompile, "compilation", "compile", "torch compiled the model"},
    {TimeClass::kStopping, "stopping", "stopping", "until the end of the job"},
    {TimeClass::kSpare, "spare", "spare", "nodes without a seat"},
    {TimeClass::kUnknown, "unknown", "unknown", "nobody told"},
}};

}  // namespace

const std::array<TimeClassText, kTimeClasses>& TimeClassTexts() { return kTexts; }

}  // namespace paceline::core
