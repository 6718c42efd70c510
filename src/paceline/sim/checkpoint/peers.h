#pragma once

// Exchanges copies of images between one simulated host and others, as agent/memory/peer_memory.h
// and agent/memory/fetch.h do, but without bytes. An image is sent in a few parts, so its sender
// may die in between and another source continue.
//
// This object ends with its agent. The copies are in the host's memory and outlive the agent.

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/checkpoint/station_machine.h"
#include "paceline/model/checkpoint.h"
#include "paceline/sim/checkpoint/arena.h"

namespace paceline::sim {

class AgentHost;
class Node;
class SimWorld;

class SimPeers {
 public:
  SimPeers(SimWorld& world, Node& node, AgentHost& agent)
      : world_(world), node_(node), agent_(agent) {}

  // HOST:PORT of this agent.
  std::string address() const;
  // The failure domain: its hosts may be lost together.
  std::string domain() const;

  void Take(const std::vector<FetchOrder>& orders, bool drop_others);
  core::CopiesSeen Seen() const;

  // --- for other hosts ---
  struct Offer {
    enum class Kind { kImage, kLater, kNotHere };
    Kind kind = Kind::kNotHere;
    SimImage image;
    uint32_t parts = 0;  // available parts
  };
  // What this host can give for that order.
  Offer Give(const FetchOrder& order, const FetchOrder::Source& source);
  void Claim(const FetchOrder& order, const FetchOrder::Source& source);
  void Release(const FetchOrder& order, const FetchOrder::Source& source);
  // The node that is sending to this one; null if none is.
  Node* giver() const;
  // Its agent is dead: releases its claims on other hosts.
  void Drop();

  static constexpr uint32_t kParts = 4;  // of an image

 private:
  struct Entry {
    FetchOrder order;
    uint64_t fetch = 0;  // 0: none
    std::string problem;
  };
  // A fetch order being executed.
  struct Fetch {
    FetchOrder order;
    size_t source = 0;
    uint32_t round = 0;
    uint32_t waits = 0;  // waits for a source that first has to fetch it itself
    bool has_begun = false;
    uint32_t slot = 0;
    uint32_t done = 0;  // parts
    SimImage image;
    Node* giver = nullptr;     // has a claim for this fetch, …
    uint64_t giver_agent = 0;  // … and its agent then
    uint64_t parts_asked = 0;  // to detect that the taker is gone
  };

  void Start(Entry* entry);
  void RunNext();
  // Continues that fetch later, if it is still wanted.
  void After(uint64_t number, Duration wait, void (SimPeers::*go)(uint64_t, Fetch&));
  void Ask(uint64_t number, Fetch& fetch);
  void AskNext(uint64_t number, Fetch& fetch, const std::string& why);
  void GiveUpSource(uint64_t number, Fetch& fetch);
  void AskStorage(uint64_t number);
  bool Begin(Fetch& fetch, const SimImage& image);
  void TakePart(uint64_t number, Fetch& fetch);
  void Stored(uint64_t number, Fetch& fetch);
  void AwaitTaker(uint64_t number, Fetch& fetch);
  void LetGo(Fetch& fetch);
  void Cancel(uint64_t number);
  void End(uint64_t number, const std::string& problem);
  AgentHost* Reach(const FetchOrder::Source& source) const;
  SimArena* CopyOf(Rank rank) const;
  Duration PartTime(const Fetch& fetch);

  SimWorld& world_;
  Node& node_;
  AgentHost& agent_;
  std::map<uint32_t, Entry> entries_;  // by rank
  std::map<uint64_t, Fetch> fetches_;  // under way, by number
  std::deque<uint64_t> waiting_;       // waiting for their turn
  uint64_t last_ = 0;
};

}  // namespace paceline::sim
