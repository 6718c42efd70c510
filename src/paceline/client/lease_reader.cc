#include "paceline/client/lease_reader.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace paceline::client {
namespace {

// Acks wait this long to be sent together.
constexpr Duration kAckDelay = Duration::Milliseconds(5);
constexpr Duration kCloseMax = Duration::Milliseconds(500);
constexpr size_t kReasonBytesMax = 500;

Instant Now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return Instant::FromNanoseconds(
      std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

}  // namespace

LeaseReader::LeaseReader(LeaseReaderOptions options) : options_(std::move(options)) {}

Result<std::unique_ptr<LeaseReader>> LeaseReader::Open(LeaseReaderOptions options) {
  std::unique_ptr<LeaseReader> reader(new LeaseReader(std::move(options)));
  if (reader->options_.socket.empty()) {
    reader->own_ = std::make_unique<LeaseBook>(std::to_string(reader->options_.open.incarnation));
    LeaseActions none;
    reader->own_->Boot(1, &none);
    const std::lock_guard lock(reader->mutex_);
    reader->Reopen();
    return reader;
  }
  if (reader->options_.socket.size() >= sizeof(sockaddr_un::sun_path)) {
    return Failure{.kind = FailureKind::kSystem,
                   .message = reader->options_.socket,
                   .error_number = ENAMETOOLONG};
  }
  reader->wake_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  reader->thread_ = std::thread([raw = reader.get()] { raw->Run(); });
  return reader;
}

LeaseReader::~LeaseReader() { Close(); }

void LeaseReader::Close() {
  {
    std::unique_lock lock(mutex_);
    if (is_ending_) return;
    SayAcks(/*is_urgent=*/true);
    Await(&lock, kCloseMax, [this] { return unconfirmed_.empty() || ended_.has_value(); });
    Say({.op = LeaseOp::kClose});
    Push();
    is_ending_ = true;
    changed_.notify_all();
  }
  Wake();
  if (thread_.joinable()) thread_.join();
}

void LeaseReader::Wake() {
  const uint64_t one = 1;
  if (wake_.is_open()) [[maybe_unused]]
    const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
}

template <class Done>
bool LeaseReader::Await(std::unique_lock<std::mutex>* lock, Duration timeout, Done done) {
  Push();
  if (own_ != nullptr) return done();  // no other process could change it
  const auto patience = std::chrono::nanoseconds(timeout.nanoseconds());
  return changed_.wait_for(*lock, patience, [&] { return done() || is_ending_; }) && done();
}

std::optional<LeaseReader::Taken> LeaseReader::Ended() {
  if (is_ending_) return Taken{.what = What::kFenced};
  return ended_;
}

// ---- what the caller does ----

LeaseReader::Taken LeaseReader::Take(Duration timeout, bool is_patient) {
  std::unique_lock lock(mutex_);
  const auto told_to_wait = [this] {
    return !requests_.empty() &&
           std::all_of(requests_.begin(), requests_.end(), [](const auto& r) { return r.second; });
  };
  const auto is_settled = [&] {
    return ended_ || complete_ || (!ready_.empty() && unconfirmed_.size() < kUnconfirmedMax) ||
           (!is_patient && told_to_wait());
  };
  TopUp(std::max(options_.ahead, 1u));
  if (ready_.empty()) SayAcks(/*is_urgent=*/true);
  const bool is_there = Await(&lock, timeout, is_settled);
  if (const auto ended = Ended()) return *ended;
  if (!ready_.empty() && unconfirmed_.size() < kUnconfirmedMax) {
    const uint64_t lease = ready_.front();
    ready_.pop_front();
    TopUp(options_.ahead);
    Push();
    const Held& held = held_.at(lease);
    return {.what = What::kLease, .lease = lease, .range = held.range, .text = held.text};
  }
  if (complete_) return *complete_;
  if (!is_patient && told_to_wait()) return {.what = What::kWait};
  return {.what = is_there ? What::kWait : What::kTimeout};
}

bool LeaseReader::Ack(uint64_t lease, uint64_t until) {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(lease);
  if (found == held_.end()) return false;
  Held& held = found->second;
  // Given back or failed, and not confirmed yet: the rest is no longer ours.
  if (held.is_over && until > held.done) return false;
  held.done = std::clamp(until, held.done, held.range.end);
  if (held.done == held.range.end) {
    held.is_over = true;
    SayAck(lease, &held);
    Push();
    return true;
  }
  const bool is_first = !std::exchange(has_unsaid_, true);
  if (Now() - said_at_ >= kAckDelay) {
    SayAcks(/*is_urgent=*/true);
    Push();
  } else if (is_first) {
    Wake();  // the thread sends it in time, whatever the caller does
  }
  return true;
}

void LeaseReader::Fail(uint64_t lease, OrdinalRange bad) {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(lease);
  if (found == held_.end()) return;
  SayAck(lease, &found->second);
  Say({.op = LeaseOp::kFail,
       .number = next_number_++,
       .lease = lease,
       .begin = bad.begin,
       .end = bad.end});
  found->second.is_over = true;
  granted_ -= found->second.range.end - found->second.done;
  if (options_.open.is_even) complete_.reset();  // its share is no longer complete
  found->second.range.end = found->second.done;  // the rest is no longer ours
  if (found->second.confirmed == found->second.done) Drop(lease);
  Push();
}

// ---- streams ----

LeaseReader::Taken LeaseReader::Known(Duration timeout) {
  std::unique_lock lock(mutex_);
  if (!Await(&lock, timeout, [this] { return ended_ || known_; }) && !is_ending_) return {};
  if (const auto ended = Ended()) return *ended;
  return {.what = What::kComplete, .range = {0, *known_}};
}

void LeaseReader::Found(const std::string& name, uint64_t base, uint64_t records) {
  const std::lock_guard lock(mutex_);
  const LeaseFrame frame{.op = LeaseOp::kFound, .begin = base, .end = records, .text = name};
  found_[name] = frame;
  Say(frame);
  Push();
}

void LeaseReader::Gap(uint64_t lease, OrdinalRange gap, bool is_refused, const std::string& why) {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(lease);
  if (found == held_.end()) return;
  LeaseFrame frame{.op = LeaseOp::kGap,
                   .flags = is_refused ? LeaseFrame::kBlamed : uint16_t{0},
                   .lease = lease,
                   .begin = gap.begin,
                   .end = gap.end,
                   .text = why.substr(0, kReasonBytesMax)};
  found->second.gaps.push_back(frame);
  Say(std::move(frame));
  Push();
}

void LeaseReader::Seen(uint64_t lease, uint64_t end) {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(lease);
  if (found != held_.end()) found->second.seen = end;
}

void LeaseReader::Touch() {
  const std::lock_guard lock(mutex_);
  for (auto& [lease, held] : held_) {
    if (held.is_over) continue;
    if (held.done > held.said) {
      SayAck(lease, &held);
      continue;
    }
    const uint64_t number = next_number_++;
    unconfirmed_.push_back({number, lease, held.said});
    Say({.op = LeaseOp::kAck,
         .number = number,
         .lease = lease,
         .begin = held.seen,
         .end = held.said});
  }
  Push();
}

std::vector<uint64_t> LeaseReader::Recalled() {
  const std::lock_guard lock(mutex_);
  std::vector<uint64_t> leases;
  for (const auto& [lease, held] : held_) {
    if (held.is_recalled && !held.is_over) leases.push_back(lease);
  }
  return leases;
}

bool LeaseReader::Holds(uint64_t lease) {
  const std::lock_guard lock(mutex_);
  return held_.contains(lease);
}

void LeaseReader::GiveBack(uint64_t lease) {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(lease);
  if (found == held_.end()) return;
  Held& held = found->second;
  SayAck(lease, &held);
  Say({.op = LeaseOp::kReturn, .lease = lease});
  held.is_over = true;
  held.range.end = held.done;  // the rest is no longer ours
  if (held.confirmed == held.done) Drop(lease);
  Push();
}

LeaseReader::Taken LeaseReader::Stand(Duration timeout) {
  std::unique_lock lock(mutex_);
  if (stand_number_ == 0) {
    stand_.reset();
    SayAcks(/*is_urgent=*/true);
    stand_number_ = next_number_++;
    Say({.op = LeaseOp::kWhere, .number = stand_number_});
  }
  if (!Await(&lock, timeout, [this] { return ended_ || stand_; }) && !is_ending_) return {};
  if (const auto ended = Ended()) return *ended;
  stand_number_ = 0;
  return *std::exchange(stand_, std::nullopt);
}

LeaseReader::Taken LeaseReader::Mark(uint64_t step, Duration timeout) {
  std::unique_lock lock(mutex_);
  if (marks_.try_emplace(step, "").second || !marks_[step].empty()) {
    marks_[step].clear();
    unsaid_marks_.insert(step);
    SayAcks(/*is_urgent=*/true);
    SayMarks();
  }
  const auto is_marked = [&] { return ended_ || !marks_[step].empty(); };
  if (!Await(&lock, timeout, is_marked) && !is_ending_) return {};
  if (const auto ended = Ended()) return *ended;
  const std::string position = marks_[step];
  while (marks_.size() > 1 && marks_.begin()->first != step) marks_.erase(marks_.begin());
  return {.what = What::kComplete, .text = position};
}

LeaseReader::Taken LeaseReader::Rewind(std::optional<std::string> position, Duration timeout) {
  std::unique_lock lock(mutex_);
  if (position) {
    held_.clear();
    ready_.clear();
    unconfirmed_.clear();
    requests_.clear();
    marks_.clear();
    unsaid_marks_.clear();
    presenting_.clear();
    complete_.reset();
    granted_ = 0;
    has_unsaid_ = false;
    rewind_text_ = *position;
    is_rewinding_ = true;
    Say({.op = LeaseOp::kRewind, .number = ++rewind_number_, .text = rewind_text_});
  }
  if (!Await(&lock, timeout, [this] { return ended_ || !is_rewinding_; }) && !is_ending_) return {};
  if (const auto ended = Ended()) return *ended;
  return {.what = What::kComplete};
}

LeaseReader::Taken LeaseReader::Flush(Duration timeout) {
  std::unique_lock lock(mutex_);
  SayAcks(/*is_urgent=*/true);
  const bool is_done = Await(&lock, timeout, [this] { return ended_ || unconfirmed_.empty(); });
  if (const auto ended = Ended()) return *ended;
  return {.what = is_done ? What::kComplete : What::kTimeout};
}

std::string LeaseReader::PositionText(const std::string& position) {
  const std::lock_guard lock(mutex_);
  return own_ == nullptr ? "" : own_->PositionText(position);
}

void LeaseReader::AddPosition(const std::string& position, const std::string& ranges) {
  const std::lock_guard lock(mutex_);
  if (own_ == nullptr) return;
  const size_t line = ranges.find('\n');
  if (options_.open.is_stream) {
    const auto done = RangesFromText(ranges.substr(0, line));
    const auto partitions = PartitionsFromText(
        line == std::string::npos ? "" : std::string_view(ranges).substr(line + 1));
    LeaseActions none;
    if (done && partitions) own_->Adopt({}, position, *done, *partitions, &none);
    return;
  }
  own_->Restore({.kind = LeaseFact::Kind::kPosition, .set = 1, .text = position + "\n" + ranges});
}

LeaseReader::Counters LeaseReader::counters() {
  const std::lock_guard lock(mutex_);
  return counters_;
}

// ---- what is said ----

void LeaseReader::Say(LeaseFrame frame) {
  if (own_ == nullptr) {
    if (frame.text.size() > kLeaseFrameTextMax) {
      ended_ = Taken{.what = What::kRefused,
                     .text =
                         "the data set cannot be described to the master\n"
                         "its terms or its position need more than 64 KiB\n"
                         "a data set of fewer parts, or a checkpoint of a `paceline run`"};
      changed_.notify_all();
      return;
    }
    if (socket_.is_open()) AppendFrame(frame, &unsent_);
    return;
  }
  LeaseActions actions;
  own_->Handle(Now(), {}, frame, &actions);
  for (LeaseAnswer& answer : actions.answers) heard_.push_back(std::move(answer.frame));
}

void LeaseReader::SayAck(uint64_t lease, Held* held) {
  if (held->done <= held->said) return;
  held->said = held->done;
  const uint64_t number = next_number_++;
  unconfirmed_.push_back({number, lease, held->done});
  Say({.op = LeaseOp::kAck,
       .number = number,
       .lease = lease,
       .begin = held->seen,
       .end = held->done});
}

void LeaseReader::SayAcks(bool is_urgent) {
  if (!has_unsaid_ || (!is_urgent && Now() - said_at_ < kAckDelay)) return;
  for (auto& [lease, held] : held_) SayAck(lease, &held);
  has_unsaid_ = false;
  said_at_ = Now();
}

void LeaseReader::SayMarks() {
  if (!presenting_.empty()) return;
  for (const uint64_t step : std::exchange(unsaid_marks_, {})) {
    Say({.op = LeaseOp::kMark, .number = step});
  }
}

void LeaseReader::Presented(uint64_t lease) {
  if (presenting_.erase(lease) > 0) SayMarks();
}

// Keeps `wanted` leases ready or requested.
void LeaseReader::TopUp(uint32_t wanted) {
  if (complete_ || ended_ || is_rewinding_) return;
  for (size_t count = ready_.size() + requests_.size(); count < wanted; ++count) {
    const uint64_t number = next_number_++;
    requests_[number] = false;
    Say({.op = LeaseOp::kTake, .number = number});
  }
}

// Sends what the socket takes. The thread sends the rest.
void LeaseReader::Push() {
  while (!heard_.empty()) {
    const LeaseFrame frame = std::move(heard_.front());
    heard_.pop_front();
    Hear(frame);
  }
  if (unsent_.empty() || !socket_.is_open()) return;
  const ssize_t sent =
      ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) unsent_.erase(0, static_cast<size_t>(sent));
  if (!unsent_.empty()) Wake();
}

// Opens again and repeats what was not confirmed.
void LeaseReader::Reopen() {
  unsent_.clear();
  is_opening_ = true;
  Say({.op = LeaseOp::kOpen, .begin = granted_, .text = EncodeOpen(options_.open)});
  if (rewind_number_ > 0) {
    Say({.op = LeaseOp::kRewind, .number = rewind_number_, .text = rewind_text_});
  }
  for (const auto& [name, frame] : found_) Say(frame);
  presenting_.clear();
  for (auto& [lease, held] : held_) {
    presenting_.insert(lease);
    held.is_recalled = false;  // the ledger recalls it again if it still wants it
    Say({.op = LeaseOp::kPresent,
         .number = held.confirmed,
         .lease = lease,
         .begin = held.range.begin,
         .end = held.range.end});
    // Before any ack that the caller adds meanwhile, which would cover them.
    for (const LeaseFrame& gap : held.gaps) Say(gap);
  }
  for (const auto& [step, position] : marks_) {
    if (position.empty()) unsaid_marks_.insert(step);
  }
  SayMarks();
  if (stand_number_ != 0 && !stand_) Say({.op = LeaseOp::kWhere, .number = stand_number_});
  const size_t count = std::exchange(requests_, {}).size();
  for (size_t i = 0; i < count; ++i) {
    const uint64_t number = next_number_++;
    requests_[number] = false;
    Say({.op = LeaseOp::kTake, .number = number});
  }
  Push();
}

}  // namespace paceline::client
