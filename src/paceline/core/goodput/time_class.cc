#include "paceline/core/goodput/time_class.h"

namespace paceline::core {

namespace {

constexpr std::array<TimeClassText, kTimeClasses> kTexts = {{
    {TimeClass::kProductive, "productive", "productive", "steps that count"},
    {TimeClass::kRedone, "wasted_progress", "redone", "steps that a failure cost"},
    {TimeClass::kDetection, "detection", "detection", "until a failure was noticed"},
    {TimeClass::kHang, "hang", "hang", "ranks waited for one that stood still"},
    {TimeClass::kDecision, "decision", "decision", "between two worlds"},
    {TimeClass::kWaiting, "waiting_for_nodes", "waiting", "for nodes to join"},
    {TimeClass::kFirstStart, "program_startup", "first start", "until the first step"},
    {TimeClass::kRestart, "infrastructure_recovery", "restart",
     "from a new world to its first step"},
    {TimeClass::kStopping, "stopping", "stopping", "until the end of the job"},
    {TimeClass::kSpare, "spare", "spare", "nodes without a seat"},
    {TimeClass::kUnknown, "unknown", "unknown", "not recorded"},
}};

}  // namespace

const std::array<TimeClassText, kTimeClasses>& TimeClassTexts() { return kTexts; }

}  // namespace paceline::core
