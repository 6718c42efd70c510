#pragma once

// Internals of the lease book: one event and its consequences.

#include <string>
#include <utility>

#include "paceline/data/lease/lease_book.h"

namespace paceline {

class LeaseBook::Turn {
 public:
  Turn(LeaseBook* book, Instant now, LeaseActions* actions)
      : book_(*book), now_(now), actions_(*actions) {}

  void Take(const LeasePeer& from, const LeaseFrame& frame);
  void End(const LeasePeer& peer, bool is_blamed);
  void Pass();
  // Applies a fact and gives it to the host.
  void Note(LeaseFact fact);

 private:
  struct Place {
    const LeasePeer& from;
    Session& session;
    DataSet& set;
  };
  void Open(const LeasePeer& from, const LeaseFrame& frame);
  // Null if it was refused.
  DataSet* FindSet(const LeasePeer& from, const LeaseOpen& open);
  bool Displace(const LeasePeer& from, const LeaseOpen& open, DataSet* set);
  void TakeRequest(const Place& at, const LeaseFrame& frame);
  void Ack(const Place& at, const LeaseFrame& frame);
  void Fail(const Place& at, const LeaseFrame& frame);
  void Present(const Place& at, const LeaseFrame& frame);
  void Return(const Place& at, const LeaseFrame& frame);
  void Found(const Place& at, const LeaseFrame& frame);
  void Gap(const Place& at, const LeaseFrame& frame);
  void Mark(const Place& at, const LeaseFrame& frame);
  void Rewind(const Place& at, const LeaseFrame& frame);
  void TablesHave(const LeasePeer& from, const LeaseFrame& frame);
  void Where(const Place& at, const LeaseFrame& frame);

  // A new generation that named no position starts at the beginning.
  void BeginGeneration(const Place& at);
  bool IsCurrent(const Place& at) const;
  void Serve(const LeasePeer& peer, Session* session, DataSet* set);
  // For streams.
  void ServeStream(DataSet* set);
  const LeasePeer* Poorest(const DataSet& set) const;
  void Recall(DataSet* set);
  // How many more ordinals this rank of an even data set may get now; 0: it has its full share.
  // None: unknown until all ranks have opened.
  std::optional<uint64_t> RoomOf(const Session& session, DataSet* set) const;
  void Grant(const LeasePeer& peer, uint64_t number, const LeaseGrant& grant, DataSet* set);
  void RefuseShare(const LeasePeer& peer, const DataSet& set);
  void Complete(const LeasePeer& peer, uint64_t number, const DataSet& set);
  // Serves waiting processes, if something became free.
  void Settle(DataSet* set);
  // Notes ranges that were blamed or quarantined since the last call.
  void NoteFailures(DataSet* set);
  void Leave(const LeasePeer& peer, bool is_blamed);

  void Answer(const LeasePeer& to, LeaseFrame frame);
  // Sends the answer when all facts so far are durable.
  void Promise(const LeasePeer& to, LeaseFrame frame);
  void Refuse(const LeasePeer& to, const std::string& what, const std::string& why,
              const std::string& fix);

  LeaseBook& book_;
  const Instant now_;
  LeaseActions& actions_;
};

}  // namespace paceline
