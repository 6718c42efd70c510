#include "fleet/fleet.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <variant>

#include "paceline/base/check.h"
#include "paceline/base/file_text.h"
#include "paceline/model/version.h"
#include "paceline/wire/codec/from_proto.h"
#include "paceline/wire/codec/to_proto.h"

namespace paceline::bench {

FleetOptions FleetOf(const std::string& address, const std::string& token_file, uint32_t agents) {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  FleetOptions options{.host = address.substr(0, address.rfind(':')),
                       .port = atoi(address.c_str() + address.rfind(':') + 1),
                       .token = ReadText(token_file, 1024),
                       .agents = agents};
  while (!options.token.empty() && options.token.back() == '\n') options.token.pop_back();
  return options;
}

// One connection with its agents: all of them, or one.
class Fleet::Line final : public LightConnection::Listener {
 public:
  Line(Fleet* fleet, int fd) : fleet_(fleet), connection_(fd, this) {}

  LightConnection& connection() { return connection_; }

  void Open(Agent* agent) {
    agent->stream = connection_.OpenStream("/paceline.v1.Master/Attach", fleet_->options_.token);
    agents_.push_back(agent);
  }

  void Opened(uint32_t stream) override { fleet_->Register(At(stream)); }
  void Heard(uint32_t stream, std::string_view message) override {
    fleet_->Take(At(stream), std::string(message));
  }
  void Ended(uint32_t stream) override {
    if (stream == 0) return;
    Agent& agent = At(stream);
    fleet_->ended_ += agent.is_open ? 1 : 0;
    agent.is_open = false;
  }
  void Broke() {
    is_broken_ = true;
    for (Agent* agent : agents_) Ended(agent->stream);
  }

  bool is_broken() const { return is_broken_; }
  bool is_counted = false;  // as accepted
  bool is_unflushed = false;

 private:
  Agent& At(uint32_t stream) { return *agents_[(stream - 1) / 2]; }

  Fleet* const fleet_;
  LightConnection connection_;
  std::vector<Agent*> agents_;
  bool is_broken_ = false;
};

Fleet::Fleet(FleetOptions options) : options_(std::move(options)), epoll_(epoll_create1(0)) {
  agents_.resize(options_.agents + options_.spares);
  for (uint32_t i = 0; i < agents_.size(); ++i) agents_[i].number = i;
  lines_.reserve(agents_.size());
}

Fleet::~Fleet() { close(epoll_); }

uint32_t Fleet::TakenIn(uint64_t generation) const {
  return generation < taken_.size() ? taken_[generation] : 0;
}

void Fleet::DialOne() {
  const auto line = static_cast<uint32_t>(lines_.size());
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  CHECK(fd >= 0, "a descriptor for each connection; see ulimit -n");
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  const uint32_t direct = DirectLines();
  const bool is_relayed = line >= direct;
  to.sin_port = htons(static_cast<uint16_t>(
      is_relayed ? options_.relay_ports[line % options_.relay_ports.size()] : options_.port));
  inet_pton(AF_INET, options_.host.c_str(), &to.sin_addr);
  static_cast<void>(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)));
  lines_.push_back(std::make_unique<Line>(this, fd));
  const auto open = [&](uint32_t agent) {
    agents_[agent].line = line;
    lines_.back()->Open(&agents_[agent]);
  };
  const auto unrelayed = static_cast<uint32_t>(agents_.size()) - options_.relayed;
  if (is_relayed) {
    open(unrelayed + line - direct);
  } else {
    for (uint32_t agent = line; agent < unrelayed; agent += direct) open(agent);
  }
  epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.u32 = line}};
  CHECK(epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0, "a fresh descriptor can be watched");
}

uint32_t Fleet::DirectLines() const {
  const auto unrelayed = static_cast<uint32_t>(agents_.size()) - options_.relayed;
  return options_.connections == 0 ? unrelayed : options_.connections;
}

uint32_t Fleet::LineCount() const { return DirectLines() + options_.relayed; }

// Not all at once: the server's backlog holds some thousands.
void Fleet::Dial() {
  while (lines_.size() < LineCount() && lines_.size() - accepted_ < options_.dialling_max)
    DialOne();
}

void Fleet::Send(Agent& agent, const wire::AgentMessage& message) {
  wire::pb::AgentMessage encoded;
  wire::ToProto(message, &encoded);
  Line& line = *lines_[agent.line];
  line.connection().Send(agent.stream, encoded.SerializeAsString());
  if (std::exchange(line.is_unflushed, true)) return;
  unflushed_.push_back(agent.line);
}

void Fleet::Register(Agent& agent) {
  agent.is_open = true;
  Send(agent, wire::Register{{.name = NameOf(agent.number),
                              .boot_id = "boot",
                              .agent_incarnation = 1,
                              .agent_pid = static_cast<int32_t>(agent.number) + 1,
                              .address = "127.0.0.1",
                              .slots = options_.ranks,
                              .store_port = 20'000,
                              .version_major = kVersionMajor,
                              .version_minor = kVersionMinor}});
}

void Fleet::Take(Agent& agent, const std::string& bytes) {
  wire::pb::MasterMessage encoded;
  CHECK(encoded.ParseFromString(bytes), "the master sends what it shall");
  const absl::StatusOr<wire::MasterMessage> message = wire::FromProto(encoded);
  CHECK(message.ok(), "the master sends what it shall");
  if (const auto* welcome = std::get_if<wire::Welcome>(&*message)) {
    agent.interval = std::chrono::nanoseconds(welcome->heartbeat_interval.nanoseconds());
    due_.push_back({Clock::now() + agent.interval, agent.number});
  } else if (const auto* pace = std::get_if<wire::Pace>(&*message)) {
    agent.interval = std::chrono::nanoseconds(pace->heartbeat_interval.nanoseconds());
  } else if (const auto* told = std::get_if<Assignment>(&*message)) {
    const bool is_new = told->generation > agent.generation;
    agent.assignment = *told;
    agent.generation = told->generation;
    if (told->kind == Assignment::Kind::kRun && is_new) {
      taken_.resize(std::max<size_t>(taken_.size(), told->generation.value() + 1));
      ++taken_[told->generation.value()];
    }
    Report(agent);
  } else if (const auto* order = std::get_if<CheckpointOrder>(&*message)) {
    if (options_.on_order) options_.on_order(agent.number, *order);
  } else {
    CHECK(false, "the master takes every agent");
  }
}

void Fleet::Report(Agent& agent) {
  wire::Heartbeat beat{.generation = agent.generation, .store_port = 20'001};
  const bool runs = agent.assignment.kind == Assignment::Kind::kRun;
  for (uint32_t i = 0; runs && i < agent.assignment.rank_count; ++i) {
    RankReport rank;
    rank.generation = agent.generation;
    rank.rank = Rank(agent.assignment.first_rank + i);
    rank.local_rank = i;
    rank.pid = 1;
    rank.state = RankReport::State::kStepping;
    rank.step_count = agent.step;
    beat.ranks.push_back(rank);
    if (options_.slow_rank.has_value()) beat.samples.push_back(SampleOf(rank));
  }
  ++agent.step;
  Send(agent, beat);
}

// All ranks do the same steps since the fleet began, and the others wait for the slow one.
RankSample Fleet::SampleOf(const RankReport& rank) const {
  constexpr int64_t kStepMs = 100;
  constexpr int64_t kOwnMs = 60;
  constexpr int64_t kDataMs = 4;
  const auto steps = static_cast<int64_t>((Clock::now() - began_) / std::chrono::milliseconds(100));
  const int64_t own = kOwnMs + (rank.rank.value() == *options_.slow_rank ? kOwnMs / 10 : 0);
  return {.generation = rank.generation,
          .rank = rank.rank,
          .sums = {.steps = static_cast<uint64_t>(steps),
                   .whole = Duration::Milliseconds(steps * kStepMs),
                   .own = Duration::Milliseconds(steps * own),
                   .data = Duration::Milliseconds(steps * kDataMs),
                   .waited = Duration::Milliseconds(steps * (kStepMs - own - kDataMs))}};
}

void Fleet::Tell(uint32_t number, const CheckpointReport& report) { Send(agents_[number], report); }

void Fleet::BeatThoseDue() {
  const auto now = Clock::now();
  while (!due_.empty() && due_.front().at <= now) {
    const Due due = due_.front();
    due_.pop_front();
    Agent& agent = agents_[due.agent];
    if (!agent.is_open) continue;
    const double late = std::chrono::duration<double>(now - due.at).count();
    late_seconds_max_ = std::max(late_seconds_max_, late);
    Report(agent);
    ++beats_;
    due_.push_back({std::max(due.at + agent.interval, now), due.agent});
  }
}

void Fleet::FlushAll() {
  for (const uint32_t line : std::exchange(unflushed_, {})) {
    lines_[line]->is_unflushed = false;
    if (!lines_[line]->is_broken() && !lines_[line]->connection().Flush()) lines_[line]->Broke();
  }
}

int Fleet::MillisecondsToWait() const {
  if (due_.empty()) return 10;
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(due_.front().at - Clock::now());
  return static_cast<int>(std::clamp<int64_t>(wait.count(), 0, 10));
}

bool Fleet::Serve(const std::function<bool()>& is_done, double seconds_max) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds_max);
  std::array<epoll_event, 512> events;
  while (!is_done()) {
    if (Clock::now() >= end) return false;
    Dial();
    BeatThoseDue();
    FlushAll();
    const int count = epoll_wait(epoll_, events.data(), events.size(), MillisecondsToWait());
    for (int i = 0; i < count; ++i) {
      Line& line = *lines_[events[static_cast<size_t>(i)].data.u32];
      if (line.is_broken()) continue;
      LightConnection& connection = line.connection();
      if (!connection.Read() || !connection.Flush()) line.Broke();
      if (connection.is_accepted() && !std::exchange(line.is_counted, true)) ++accepted_;
    }
  }
  return true;
}

void Fleet::Kill(uint32_t number) {
  Agent& agent = agents_[number];
  LightConnection& connection = lines_[agent.line]->connection();
  agent.is_open = false;
  connection.Reset(agent.stream);
  static_cast<void>(connection.Flush());
}

}  // namespace paceline::bench
