#pragma once

// How a framework carries out a plan: what it hides behind passes, what it divides, and what it
// keeps. Costs ask for it, and the search does not. To add a framework: a row in execution.cc.

#include <optional>
#include <span>
#include <string_view>

namespace paceline::plan {

struct Execution {
  std::string_view name;  // of `--profile`
  std::string_view told;  // what it hides, for the printed plan
  // Bytes that element-wise operations move for each byte that they save.
  double moved = 1;
  // The ranks that share layers divide the words of the embedding and of the head, which are padded
  // to a multiple of them, and never gather scores.
  bool divides_words = false;
  // Layers of its own instead of a library's. The backward pass gathers inputs of divided products
  // again, stages hand over divided sequences, a gate is one operation with its product, and
  // selective recomputation computes only attention again.
  bool has_own_layers = false;
  // Attention writes its scores to memory, instead of computing them in one kernel.
  bool keeps_scores = false;
  // A rank sends its part of what the ranks of a stage hand over.
  bool divides_transfers = false;
  // Sharded state is only the optimizer's: parameters and gradients are whole on each replica, and
  // the gradients' sums need no memory of their own (Megatron's distributed optimizer, ZeRO-1).
  bool divides_optimizer_alone = false;
  // Of `divides_optimizer_alone`: gradients are divided as well (ZeRO-2).
  bool divides_gradients = false;
  // Of the ranks of a node that exchange with other nodes, each uses its own link (NCCL's rings).
  bool uses_all_links = false;
  // Sums over the ranks that share a layer are hidden behind its products, but for the first of as
  // many parts as there are ranks.
  bool hides_sums = false;
};

// As paceline.parallel overlaps: an exchange with the passes of its own micro-batch alone.
const Execution& OurExecution();
// The first one is ours.
std::span<const Execution> Executions();
// Null: there is none of this name.
const Execution* FindExecution(std::string_view name);

}  // namespace paceline::plan
