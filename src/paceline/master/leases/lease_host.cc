#include "paceline/master/leases/lease_host.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "paceline/base/json.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"

namespace paceline::master {
namespace {

// Each start of a master has a block of lease ids.
constexpr int kBlockBits = 40;

// Splits into lines, also empty ones.
std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

uint64_t NextBlock(const LeaseBook& book) {
  return (((book.first_lease() - 1) >> kBlockBits) + 1) << kBlockBits;
}

}  // namespace

LeaseBook FoldLeases(const StoredLeases& stored, const std::string& job) {
  LeaseBook book(job);
  for (const LeaseFact& fact : stored.summary) book.Restore(fact);
  for (const LeaseFact& fact : stored.before) book.RestoreProgress(fact);
  for (const LeaseFact& fact : stored.facts) book.Restore(fact);
  return book;
}

std::string DataSetJson(const DataSetView& view) {
  nlohmann::json json = {{"name", view.name},
                         {"ordinals", view.ordinals},
                         {"done", view.done},
                         {"open_leases", view.open_leases},
                         {"leased", view.leased},
                         {"workers", view.workers},
                         {"follows_checkpoints", view.follows_checkpoints},
                         {"is_complete", view.is_complete},
                         {"quarantined", RangesToText(view.quarantined)}};
  if (view.is_stream) {
    json["gaps"] = view.gaps;
    json["reasons"] = view.reasons;
    json["partitions"] = nlohmann::json::array();
    const auto number = [](const std::optional<uint64_t>& one) {
      return one ? nlohmann::json(*one) : nlohmann::json();
    };
    for (const PartitionView& one : view.partitions) {
      json["partitions"].push_back({{"name", one.name},
                                    {"offset", one.offset},
                                    {"holder", number(one.holder)},
                                    {"lag", number(one.lag)},
                                    {"is_over", one.is_over}});
    }
  }
  const nlohmann::json terms = ParseJson(view.terms);
  json["terms"] = terms.is_discarded() ? nlohmann::json(view.terms) : terms;
  return PrintJson(json);
}

std::string ShownText(DataSetView view) {
  std::string text = DataSetJson(view);
  if (text.size() <= kLeaseFrameTextMax) return text;
  constexpr size_t kRangesMax = 1'000;  // each has at most 34 bytes
  view.quarantined.resize(std::min(view.quarantined.size(), kRangesMax));
  // The partitions that are not over, and not all of them.
  constexpr size_t kPartitionsShownMax = 100;
  std::erase_if(view.partitions, [](const PartitionView& one) { return one.is_over; });
  view.partitions.resize(std::min(view.partitions.size(), kPartitionsShownMax));
  text = DataSetJson(view);
  if (text.size() <= kLeaseFrameTextMax) return text;
  view.terms.clear();
  return DataSetJson(view);
}

absl::StatusOr<std::unique_ptr<LeaseHost>> LeaseHost::Start(Options options) {
  std::unique_ptr<LeaseHost> host(new LeaseHost);
  LeaseHost* const raw = host.get();
  host->is_placed_ = options.is_placed;
  host->taken_ = options.taken;
  host->silence_patience_ =
      std::max(Duration(), options.silence_max - wire::LeaseServer::kSilenceMax);
  StoredLeases stored;
  ASSIGN_OR_RETURN(host->journal_,
                   LeaseJournal::Open({.path = options.path, .refuses = options.refuses}, &stored));
  host->book_ = FoldLeases(stored, options.job);
  for (const DataSetView& view : host->book_.Views()) {
    host->search_counts_ = host->search_counts_ || view.done > 0;
  }
  LeaseActions boot;
  host->book_.Boot(NextBlock(host->book_), &boot);
  RETURN_IF_ERROR(host->journal_->AppendNow(boot.facts));
  host->facts_ = host->durable_ = boot.facts.size();
  ASSIGN_OR_RETURN(host->server_, wire::LeaseServer::Open({options.listen, options.is_insecure},
                                                          options.credentials));
  wire::LeaseServer* const server = host->server_.get();
  host->journal_->Start(
      {.durable = [raw, server](
                      uint64_t count) { server->Post([raw, count] { raw->SetDurable(count); }); },
       .failed =
           [raw, server](const std::string& why) {
             server->Post([raw, why] {
               if (raw->journal_state_ != why) LogError("lease_journal_failed", {{"why", why}});
               raw->journal_state_ = why;
             });
           }});
  server->Start(
      {.heard = [raw](wire::LeaseServer::LinkId link,
                      const std::vector<LeaseFrame>& frames) { raw->Heard(link, frames); },
       .broken =
           [raw](wire::LeaseServer::LinkId link, bool is_silent) {
             LogInfo("lease_link_broken", {{"link", link}, {"silent", is_silent}});
             const Duration patience =
                 is_silent ? raw->silence_patience_ : LeaseBook::kLinkPatience;
             raw->book_.LinkBroken(wire::LeaseServer::Now(), link, patience);
             std::erase_if(raw->table_servers_,
                           [link](const LeasePeer& one) { return one.link == link; });
           },
       .round = [raw] { return raw->Round(); }});
  return host;
}

LeaseHost::~LeaseHost() {
  if (server_ != nullptr) server_->Stop();
  journal_.reset();
}

void LeaseHost::Heard(wire::LeaseServer::LinkId link, const std::vector<LeaseFrame>& frames) {
  const Instant now = wire::LeaseServer::Now();
  for (const LeaseFrame& frame : frames) {
    const LeasePeer from{link, frame.peer};
    switch (frame.op) {
      case LeaseOp::kPing: break;
      case LeaseOp::kTablesWatch:
        table_servers_.insert(from);
        TellRouting(from);
        break;
      case LeaseOp::kTablesTaken:
        if (const auto taken = ParseTaken(frame.text); taken && taken_) taken_(*taken);
        break;
      case LeaseOp::kGone:
        table_servers_.erase(from);
        book_.PeerGone(now, from, (frame.flags & LeaseFrame::kBlamed) != 0, &actions_);
        break;
      case LeaseOp::kShow: Show(from); break;
      case LeaseOp::kOpen:
        if (is_placed_) {
          RefusePlaced(from, frame);
          break;
        }
        [[fallthrough]];
      default:
        if (frame.op == LeaseOp::kRewind) LookElsewhere(from, frame);
        book_.Handle(now, from, frame, &actions_);
    }
  }
}

void LeaseHost::RefusePlaced(const LeasePeer& to, const LeaseFrame& open) {
  const std::optional<LeaseOpen> asked = ParseOpen(open.text);
  const std::string name = asked.has_value() ? asked->name : "?";
  server_->Send(to.link,
                {.op = LeaseOp::kRefused,
                 .peer = to.peer,
                 .text = "the data set " + name +
                         " cannot be leased in a job that a platform starts\n"
                         "the record of finished samples is on the disk of the master's host, and "
                         "would be lost with it\n"
                         "use ElasticLoader: its position is in the checkpoint"});
}

// The text has one line each: a position, the run directory of the job that made it, and the
// finished ranges, if a process without a job made it. The partitions of a stream follow.
void LeaseHost::LookElsewhere(const LeasePeer& from, const LeaseFrame& rewind) {
  const std::vector<std::string_view> lines = LinesOf(rewind.text);
  if (lines.size() < 2) return;
  const std::string position(lines[0]);
  if (!book_.Lacks(from, position)) return;
  if (lines.size() > 2) {
    const auto done = RangesFromText(lines[2]);
    if (!done) return;
    if (lines.size() == 3) {
      book_.Adopt(from, position, *done, &actions_);
      return;
    }
    const auto partitions =
        PartitionsFromText(std::string_view(rewind.text)
                               .substr(static_cast<size_t>(lines[3].data() - rewind.text.data())));
    if (partitions) book_.Adopt(from, position, *done, *partitions, &actions_);
    return;
  }
  const std::string path = std::string(lines[1]) + "/data.db";
  const auto stored = ReadLeases(path);
  const bool is_adopted =
      stored.ok() &&
      book_.Adopt(from, position, FoldLeases(*stored, LeaseBook::JobOf(position)), &actions_);
  LogInfo("lease_position_of_another_job",
          {{"position", position}, {"from", path}, {"adopted", is_adopted}});
}

void LeaseHost::TellRouting(const LeasePeer& to) {
  if (routing_.empty()) return;
  server_->Send(to.link, {.op = LeaseOp::kRouting, .peer = to.peer, .text = routing_});
}

void LeaseHost::SetRouting(std::string news) {
  server_->Post([this, news = std::move(news)] {
    routing_ = news;
    for (const LeasePeer& one : table_servers_) TellRouting(one);
  });
}

void LeaseHost::Show(const LeasePeer& to) {
  for (const DataSetView& view : book_.Views()) {
    server_->Send(to.link, {.op = LeaseOp::kShown, .text = ShownText(view)});
  }
  server_->Send(to.link, {.op = LeaseOp::kShown});
}

Instant LeaseHost::Round() {
  const Instant now = wire::LeaseServer::Now();
  if (book_.NextDeadline() <= now) book_.Tick(now, &actions_);
  if (!actions_.facts.empty()) {
    const core::LeasedWorkDone before = work_;
    for (const LeaseFact& fact : actions_.facts) Count(fact);
    facts_ += actions_.facts.size();
    if (work_ != before) later_work_.emplace_back(facts_, work_);
    journal_->Append(std::exchange(actions_.facts, {}));
  }
  for (LeaseAnswer& answer : actions_.answers) {
    if (answer.after <= durable_) {
      Send(answer);
    } else {
      waiting_.push_back(std::move(answer));
    }
  }
  actions_.answers.clear();
  if (facts_ - summarized_ >= kFactsPerSummary) {
    summarized_ = facts_;
    journal_->Summarize(book_.Summary());
  }
  return book_.NextDeadline();
}

void LeaseHost::Send(const LeaseAnswer& answer) {
  LeaseFrame frame = answer.frame;
  frame.peer = answer.to.peer;
  server_->Send(answer.to.link, frame);
}

void LeaseHost::Count(const LeaseFact& fact) {
  if (book_.FollowsCheckpoints(fact.set)) return;
  if (fact.kind == LeaseFact::Kind::kAcked) {
    work_.samples += fact.end - fact.begin;
    search_counts_ = true;
  } else if (fact.kind == LeaseFact::Kind::kQuarantined) {
    ++work_.searches;
    search_counts_ = false;
  } else if (fact.kind == LeaseFact::Kind::kBlamed && search_counts_) {
    ++work_.searches;
  }
}

void LeaseHost::SetDurable(uint64_t count) {
  while (!later_work_.empty() && later_work_.front().first <= count) {
    const std::lock_guard lock(mutex_);
    durable_work_ = later_work_.front().second;
    later_work_.pop_front();
  }
  if (!journal_state_.empty()) LogInfo("lease_journal_ok", {});
  journal_state_.clear();
  durable_ = count;
  std::map<LeasePeer, LeaseAnswer> confirmed;  // the last one covers all earlier ones
  while (!waiting_.empty() && waiting_.front().after <= durable_) {
    LeaseAnswer answer = std::move(waiting_.front());
    waiting_.pop_front();
    if (answer.frame.op == LeaseOp::kConfirmed) {
      confirmed.insert_or_assign(answer.to, std::move(answer));
    } else {
      Send(answer);
    }
  }
  for (const auto& [to, answer] : confirmed) Send(answer);
}

core::LeasedWorkDone LeaseHost::work() const {
  const std::lock_guard lock(mutex_);
  return durable_work_;
}

void LeaseHost::Committed(uint64_t step) {
  server_->Post([this, step] { book_.Committed(step, &actions_); });
}

}  // namespace paceline::master
