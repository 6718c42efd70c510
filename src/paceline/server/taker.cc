#include "paceline/server/taker.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "paceline/base/log.h"
#include "paceline/base/text.h"
#include "paceline/base/unix_dial.h"

namespace paceline::server {
namespace {

constexpr int64_t kTakerRetryNs = 20'000'000;
constexpr int64_t kNotNowNs = 5'000'000;
// Between two moves, as a multiple of the time that the last one took: workers must get their turn.
constexpr int64_t kRestShare = 4;
constexpr int64_t kRestMostNs = 200'000'000;

}  // namespace

std::string SocketOfServer(const std::string& own, uint32_t server) {
  const size_t dash = own.rfind('-');
  return Concat(std::string_view(own).substr(0, dash + 1), server, ".sock");
}

void Taker::Break(int64_t now_ns) {
  link_.reset();
  generation_ = 0;
  is_asked_ = false;
  retry_ns_ = now_ns + kTakerRetryNs;
}

int64_t Taker::next_ns() const {
  if (share_.Wanted() == nullptr) return INT64_MAX;
  const bool is_idle = link_ == nullptr || (generation_ != 0 && !is_asked_ && !share_.Taken());
  return is_idle ? retry_ns_ : INT64_MAX;
}

void Taker::Go(int64_t now_ns) {
  const TableMove* const move = share_.Wanted();
  if (asked_id_ != 0 && (move == nullptr || move->id != asked_id_)) {
    took_ns_ = now_ns - asked_ns_;
    asked_id_ = 0;
  }
  if (move == nullptr) {
    link_.reset();
    generation_ = 0;
    is_asked_ = false;
    return;
  }
  if (move->id != seen_id_) {
    // Another move than the last one: the workers go first.
    if (seen_id_ != 0) {
      retry_ns_ = std::max(retry_ns_, now_ns + std::min(took_ns_ * kRestShare, kRestMostNs));
    }
    seen_id_ = move->id;
  }
  if (link_ != nullptr && source_ != move->from) Break(now_ns - kTakerRetryNs);
  if (link_ == nullptr) {
    if (now_ns < retry_ns_) return;
    Fd fd = DialUnix(SocketOfServer(own_socket_, move->from), SOCK_NONBLOCK);
    if (!fd.is_open()) return Break(now_ns);
    link_ = std::make_unique<Connection>(std::move(fd));
    source_ = move->from;
    ++links_;
    link_->Send(ps::EncodeFrame({.op = ps::TableOp::kHello, .number = 1},
                                ps::EncodeHello({.server = source_, .servers = 1, .job = job_})));
  }
  if (generation_ != 0 && !is_asked_ && !share_.Taken() && now_ns >= retry_ns_) {
    is_asked_ = true;
    asked_id_ = move->id;
    asked_ns_ = now_ns;
    link_->Send(ps::EncodeFrame({.op = ps::TableOp::kGive, .number = 2},
                                ps::EncodeGive({.id = move->id, .to = share_.server()})));
  }
  if (!link_->Flush()) return Break(now_ns);
  Take(now_ns);
}

void Taker::Take(int64_t now_ns) {
  switch (link_->Take()) {
    case Connection::Arrived::kNothing: return;
    case Connection::Arrived::kClosed:
    case Connection::Arrived::kMalformed: return Break(now_ns);
    case Connection::Arrived::kFrame: break;
  }
  Heard(now_ns);
  if (link_ == nullptr) return;
  link_->Drop();
  if (generation_ != 0 && !is_asked_ && now_ns >= retry_ns_ && !share_.Taken()) Go(now_ns);
}

void Taker::Heard(int64_t now_ns) {
  const ps::TableHead& head = link_->head();
  if (head.op == ps::TableOp::kWelcome) {
    const auto hello = ps::DecodeHello(link_->body());
    if (!hello || hello->incarnation == 0) return Break(now_ns);
    generation_ = hello->incarnation;
    return;
  }
  const auto read =
      head.op == ps::TableOp::kGiven ? ps::DecodeImages(head.count, link_->body()) : std::nullopt;
  if (!read) return Break(now_ns);
  is_asked_ = false;
  if (read->images.empty()) {
    retry_ns_ = now_ns + kNotNowNs;
    return;
  }
  snapshot_ = std::max(snapshot_, read->snapshot);
  const std::string why = share_.Stage(asked_id_, generation_, read->images);
  if (why.empty()) return;
  LogWarning("partitions_refused", {{"from", source_}, {"why", why}});
  retry_ns_ = now_ns + kTakerRetryNs;
}

}  // namespace paceline::server
