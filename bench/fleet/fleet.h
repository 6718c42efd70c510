#pragma once

// Thousands of agents without ranks in one thread: each has a stream of its own to a real master,
// registers, takes its assignment, reports its ranks as stepping, and beats at the pace that the
// master told it, with a new step in every beat, as in a job that trains.

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/light_connection.h"
#include "paceline/base/instant.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/ids.h"
#include "paceline/model/rank_sample.h"
#include "paceline/model/world.h"
#include "paceline/wire/messages.h"

namespace paceline::bench {

struct FleetOptions {
  std::string host = "127.0.0.1";
  int port = 0;                  // of the master
  std::vector<int> relay_ports;  // agents that are `relayed` have a socket each to one of these
  std::string token;
  uint32_t agents = 1000;        // seats of the world
  uint32_t spares = 1;           // agents beside them
  uint32_t relayed = 0;          // of the agents
  uint32_t connections = 0;      // of all others, to the master; 0: a socket for each agent
  uint32_t ranks = 1;            // of each agent
  uint32_t dialling_max = 1000;  // sockets that the server has not answered yet
  // Ranks tell the times of steps of 100 ms, of which 60 are own work. None: they tell no times.
  std::optional<uint32_t> slow_rank = {};  // whose own work takes 10 % longer
  // What the master orders of an agent's checkpoints; none: it is not heard.
  std::function<void(uint32_t number, const CheckpointOrder&)> on_order = {};
};

// Of so many agents of the master at HOST:PORT. Lets this process have as many sockets as it may.
FleetOptions FleetOf(const std::string& address, const std::string& token_file, uint32_t agents);

class Fleet {
 public:
  explicit Fleet(FleetOptions options);
  ~Fleet();
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  // Serves the agents until `is_done` or the time is over; false: it is over.
  bool Serve(const std::function<bool()>& is_done, double seconds_max);

  // Agents that were told to run in this generation.
  uint32_t TakenIn(uint64_t generation) const;
  // What the agent has of the job's checkpoints.
  void Tell(uint32_t number, const CheckpointReport& report);
  const Assignment& AssignmentOf(uint32_t number) const { return agents_[number].assignment; }
  // Ends the agent's stream as a killed host would.
  void Kill(uint32_t number);
  static std::string NameOf(uint32_t number) { return "node" + std::to_string(number); }

  uint64_t beats() const { return beats_; }
  uint32_t ended() const { return ended_; }
  // Worst lateness of our own beats: when it nears the interval, this machine is the limit.
  double late_seconds_max() const { return late_seconds_max_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Agent {
    uint32_t number = 0;
    uint32_t line = 0;  // its connection
    uint32_t stream = 0;
    bool is_open = false;
    Generation generation;
    Assignment assignment;
    int64_t step = 0;
    Clock::duration interval{};
  };
  class Line;

  void Dial();
  void DialOne();
  uint32_t DirectLines() const;
  uint32_t LineCount() const;
  void Register(Agent& agent);
  void Take(Agent& agent, const std::string& bytes);
  void Report(Agent& agent);
  RankSample SampleOf(const RankReport& rank) const;
  void Send(Agent& agent, const wire::AgentMessage& message);
  void BeatThoseDue();
  void FlushAll();
  int MillisecondsToWait() const;

  const FleetOptions options_;
  int epoll_ = -1;
  std::vector<Agent> agents_;
  std::vector<std::unique_ptr<Line>> lines_;
  uint32_t accepted_ = 0;
  std::vector<uint32_t> unflushed_;  // lines
  struct Due {
    Clock::time_point at;
    uint32_t agent = 0;
  };
  std::deque<Due> due_;          // by time: all agents have the same interval
  std::vector<uint32_t> taken_;  // by generation
  uint64_t beats_ = 0;
  uint32_t ended_ = 0;
  const Clock::time_point began_ = Clock::now();
  double late_seconds_max_ = 0;
};

}  // namespace paceline::bench
