#include "paceline/plan/execution.h"

#include <algorithm>

namespace paceline::plan {
namespace {

// Fitted to table 1 of Narayanan et al. 2021, together with the share of an A100's peak
// (devices.cc). The inputs and results of fused operations on a layer's values are 2.6 times what
// is saved of them.
constexpr double kMoved = 2.5;

constexpr Execution kExecutions[] = {
    {.name = "paceline",
     .told = "gradients are exchanged behind the last backward pass; sums over ranks that share "
             "layers are not hidden"},
    // D. Narayanan et al. 2021 (divided words, scattered transfers), V. Korthikanti et al. 2022
    // (divided sequences, attention computed again), and the distributed optimizer.
    {.name = "megatron",
     .told = "as Megatron-LM: divided words and transfers, the optimizer's state alone is sharded, "
             "gradients are exchanged behind the last backward passes",
     .moved = kMoved,
     .divides_words = true,
     .has_own_layers = true,
     .keeps_scores = true,
     .divides_transfers = true,
     .divides_optimizer_alone = true,
     .uses_all_links = true},
    // The README of release 0.8: --tp-comm-overlap beside --overlap-grad-reduce and
    // --overlap-param-gather.
    {.name = "megatron-core",
     .told = "as Megatron-Core: as megatron, and sums over ranks that share layers are hidden "
             "behind products",
     .moved = kMoved,
     .divides_words = true,
     .has_own_layers = true,
     .divides_transfers = true,
     .divides_optimizer_alone = true,
     .uses_all_links = true,
     .hides_sums = true},
    // Llama Team 2024, section 3.3: gradients are sharded as well, and sums are not said to be
    // hidden.
    {.name = "llama3",
     .told =
         "as Llama 3 was trained: as megatron-core, but gradients are sharded as well, and sums "
         "over ranks that share layers are not hidden",
     .moved = kMoved,
     .divides_words = true,
     .has_own_layers = true,
     .divides_transfers = true,
     .divides_optimizer_alone = true,
     .divides_gradients = true,
     .uses_all_links = true},
    // FSDP2 and DTensor as in paceline, with the loss of divided scores.
    {.name = "torchtitan",
     .told = "as torchtitan: as paceline, and the words of embedding and head are divided",
     .divides_words = true},
};

}  // namespace

std::span<const Execution> Executions() { return kExecutions; }

const Execution& OurExecution() { return kExecutions[0]; }

const Execution* FindExecution(std::string_view name) {
  const auto found = std::find_if(std::begin(kExecutions), std::end(kExecutions),
                                  [&](const Execution& one) { return one.name == name; });
  return found == std::end(kExecutions) ? nullptr : found;
}

}  // namespace paceline::plan
