#pragma once

// Whether the devices of a world hold the job's model. Its ranks reported the model and their
// devices with their parallel plan. A job without a plan has room everywhere.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/world/rendezvous.h"

namespace paceline::core {

struct JobState;
struct NodeDevices;
struct ParallelPlanChosen;

// Notes the devices of each node of the plan's world.
void NoteDevices(const ParallelPlanChosen& fact, JobState* state);

// The `count` nodes whose devices have the most memory, as far as the nodes have reported it.
std::vector<Candidate> Roomiest(const JobState& state, std::vector<Candidate> nodes, size_t count);

// Answers are kept, because the same nodes are asked about at each event while the job waits.
class Room {
 public:
  // Why a world of these nodes cannot hold the model, as one sentence; "" if it can. A node that
  // was in no world counts as one with the roomiest known devices, so that unknown devices never
  // hold a world back. A world with all devices of the last one holds the model, because the last
  // one did.
  const std::string& WhyNot(const JobState& state, const std::vector<Candidate>& seats);

 private:
  using Devices = std::vector<std::pair<std::string, std::pair<uint64_t, uint32_t>>>;

  uint64_t model_ = 0;  // hash of the texts that the answers are for
  std::map<Devices, std::string> answers_;
  std::string none_;
};

}  // namespace paceline::core
