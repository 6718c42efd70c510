#include "paceline/client/tables/server_calls.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <optional>
#include <utility>

#include "paceline/base/text.h"
#include "paceline/client/tables/tables.h"

namespace paceline::client {
namespace {

int64_t NowNs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

constexpr int64_t kRoutePauseNs = 100'000'000;

// Where a server of the same job listens: the socket of another one, with this number.
std::string SocketOfServer(const std::string& other, uint32_t server) {
  return Concat(std::string_view(other).substr(0, other.rfind('-') + 1), server, ".sock");
}

// Of version 0: the first server that is asked for rows tells the true routing.
TableRouting FirstGuess(uint32_t servers) {
  return *TableRouting::Of(0, TableRouting(servers).servers());
}

}  // namespace

ServerCalls::ServerCalls(const std::vector<std::string_view>& sockets, uint64_t job,
                         int64_t patience_ns)
    : job_(job),
      routing_(FirstGuess(static_cast<uint32_t>(sockets.size()))),
      router_(ServerLink::Place{std::string(sockets[0]), 0, 1, job}),
      waits_(sockets.size(), patience_ns) {
  for (const std::string_view socket : sockets) {
    const auto number = static_cast<uint32_t>(links_.size());
    links_.emplace_back(ServerLink::Place{std::string(socket), number, 1, job});
  }
  serves_.assign(links_.size(), true);
  shares_.resize(links_.size());
}

bool ServerCalls::Begin(std::string name) {
  if (name == call_) return false;
  call_ = std::move(name);
  for (ServerLink& link : links_) link.Forget();
  is_done_.assign(links_.size(), false);
  return true;
}

void ServerCalls::Start(bool is_new, const Divided& divide) {
  if (!is_new) return;
  for (ServerLink& link : links_) link.Forget();
  for (std::vector<Share>& shares : shares_) {
    for (Share& share : shares) share.Clear();
  }
  for (size_t i = 0; i < links_.size(); ++i) is_done_[i] = !serves_[i];
  divide();
}

void ServerCalls::Divide(size_t index, uint32_t table, std::span<const uint64_t> keys,
                         std::span<const float> values) {
  DivideKeys(routing_, specs_[table], keys, values, index, &shares_);
}

Result<void> ServerCalls::Refused(size_t server, const ServerLink::Answer& answer) const {
  const auto refusal = static_cast<ps::TableRefusal>(answer.head.count);
  const FailureKind kind = refusal == ps::TableRefusal::kDiffers     ? FailureKind::kExists
                           : refusal == ps::TableRefusal::kMalformed ? FailureKind::kDamaged
                                                                     : FailureKind::kInvalid;
  const std::string why(reinterpret_cast<const char*>(answer.body.data()), answer.body.size());
  return Failure{kind, Concat(NameOf(server), ": ", why)};
}

bool ServerCalls::Learn(std::span<const std::byte> body) {
  const std::optional<TableRouting> routing = ps::DecodeRouting(body);
  if (!routing || routing->version() <= routing_.version()) return false;
  routing_ = *routing;
  const size_t servers = std::max<size_t>(links_.size(), routing_.end());
  while (links_.size() < servers) {
    const auto number = static_cast<uint32_t>(links_.size());
    links_.emplace_back(
        ServerLink::Place{SocketOfServer(links_[0].place().socket, number), number, 1, job_});
  }
  shares_.resize(servers);
  is_done_.resize(servers, true);
  waits_.Grow(servers);
  std::vector<bool> serves(servers);
  for (uint32_t i = 0; i < servers; ++i) serves[i] = routing_.CountOf(i) > 0;
  const bool is_other = std::exchange(serves_, serves) != serves;
  for (size_t i = 0; i < specs_.size() && is_other; ++i) texts_[i] = TextOf(specs_[i]);
  for (ServerLink& link : links_) {
    link.SetVersion(routing_.version());
    if (is_other) link.Reopen();
  }
  DivideInits();
  return true;
}

void ServerCalls::DivideInits() {
  std::vector<std::vector<Share>> shares(links_.size());
  for (const ServerLink& link : links_) {
    for (const ServerLink::KeptInit& init : link.inits()) {
      const auto body = std::as_bytes(std::span(init.body));
      const auto rows = ps::DecodeRows(init.count, specs_[init.table].dim, body);
      if (rows) {
        DivideKeys(routing_, specs_[init.table], rows->keys, rows->values, init.table, &shares);
      }
    }
  }
  for (size_t server = 0; server < links_.size(); ++server) {
    std::vector<ServerLink::KeptInit> inits;
    for (uint32_t table = 0; table < shares[server].size(); ++table) {
      const Share& share = shares[server][table];
      if (share.keys.empty()) continue;
      inits.push_back({table, static_cast<uint32_t>(share.keys.size()),
                       ps::EncodeRows(share.keys, share.values)});
    }
    links_[server].SetInits(std::move(inits));
  }
}

bool ServerCalls::AskRouting(int64_t now_ns) {
  bool is_away = false;
  for (size_t i = 0; i < links_.size(); ++i) {
    is_away = is_away || (!is_done_[i] && links_[i].fd() < 0);
  }
  if (!is_away || now_ns < next_route_ns_) return false;
  if (router_.IsReady(0)) router_.Send({.op = ps::TableOp::kRoute}, "");
  const auto answer = router_.Go(now_ns, {});
  if (!answer) return false;
  next_route_ns_ = now_ns + kRoutePauseNs;
  return answer->head.op == ps::TableOp::kMoved && Learn(answer->body);
}

Result<ServerCalls::Went> ServerCalls::GoAt(size_t server, const Make& make, const Take& take) {
  ServerLink& link = links_[server];
  while (!is_done_[server]) {
    const auto answer = link.Go(NowNs(), texts_);
    if (answer && answer->head.op == ps::TableOp::kMoved) {
      if (Learn(answer->body)) return Went::kMoved;
    } else if (answer) {
      RETURN_IF_ERROR(answer->head.op == ps::TableOp::kRefused ? Refused(server, *answer)
                                                               : take(server, *answer));
      is_done_[server] = true;
    } else if (link.IsReady(texts_.size())) {
      ASSIGN_OR_RETURN(Request request, make(server));
      if (request.head.op == ps::TableOp::kHello) {
        is_done_[server] = true;  // its tables are open, and nothing else is wanted
      } else {
        request.head.recovery = routing_.version();
        link.Send(request.head, request.body);
      }
    } else {
      return Went::kOn;
    }
  }
  return Went::kOver;
}

Result<void> ServerCalls::Run(const Divided& divide, const Make& make, const Take& take) {
  const int64_t deadline_ns = NowNs() + Tables::kPatience.nanoseconds();
  const auto failed = [this](const Failure& failure) {
    call_.clear();
    return failure;
  };
  for (;;) {
    bool is_over = true;
    bool is_moved = false;
    for (size_t i = 0; i < links_.size() && !is_moved; ++i) {
      const Result<Went> went = GoAt(i, make, take);
      if (!went.ok()) return failed(went.failure());
      is_over = is_over && *went == Went::kOver;
      is_moved = *went == Went::kMoved;
    }
    const int64_t now = NowNs();
    if (is_moved || AskRouting(now)) {
      // Every server is asked again: those that have applied a push skip it.
      Start(true, divide);
      continue;
    }
    const Result<void> noted = NoteWaits(now);
    if (!noted.ok()) return failed(noted.failure());
    if (is_over) {
      call_.clear();
      return {};
    }
    RETURN_IF_ERROR(Wait(deadline_ns));
  }
}

Result<void> ServerCalls::Wait(int64_t deadline_ns) {
  const Failure again{FailureKind::kBusy, "a table server has not answered yet"};
  const int64_t now = NowNs();
  if (now >= deadline_ns) return again;
  int64_t until = deadline_ns;
  std::vector<pollfd> polled;
  for (size_t i = 0; i < links_.size(); ++i) {
    if (is_done_[i]) continue;
    const ServerLink& link = links_[i];
    if (link.fd() >= 0) {
      polled.push_back({.fd = link.fd(), .events = link.events(), .revents = 0});
    } else {
      until = std::min(until, std::max(now, link.retry_ns()));
    }
  }
  if (router_.has_request() && router_.fd() >= 0) {
    polled.push_back({.fd = router_.fd(), .events = router_.events(), .revents = 0});
  }
  const auto milliseconds = static_cast<int>((until - now + 999'999) / 1'000'000);
  const int count = ::poll(polled.data(), polled.size(), milliseconds);
  is_interrupted_ = count < 0 && errno == EINTR;
  return is_interrupted_ ? Result<void>(again) : Result<void>();
}

Result<void> ServerCalls::NoteWaits(int64_t now_ns) {
  for (size_t i = 0; i < links_.size(); ++i) {
    if (is_done_[i]) {
      waits_.Answered(i, now_ns);
    } else {
      const std::string why = links_[i].fd() >= 0 ? "it does not answer" : links_[i].why();
      RETURN_IF_ERROR(waits_.Owes(i, why, now_ns));
    }
  }
  return {};
}

// With the budget of one server.
std::string ServerCalls::TextOf(const ps::TableSpec& spec) const {
  const auto servers = static_cast<uint64_t>(std::count(serves_.begin(), serves_.end(), true));
  ps::TableSpec sent = spec;
  sent.budget_bytes = (spec.budget_bytes + servers - 1) / servers;
  return ps::EncodeSpec(sent);
}

Result<void> ServerCalls::RunAt(const Which& server, std::string name, const Make& make,
                                const Take& take) {
  const auto divide = [&] {
    for (size_t i = 0; i < links_.size(); ++i) is_done_[i] = i != server() || !serves_[i];
  };
  Start(Begin(std::move(name)), divide);
  for (;;) {
    is_interrupted_ = false;
    const Result<void> done = Run(divide, make, take);
    if (done.ok()) return done;
    const bool goes_on = done.failure().kind == FailureKind::kBusy && !is_interrupted_;
    if (!goes_on) return done;
  }
}

}  // namespace paceline::client
