// Our side of bench/checkpoint/peer_fetch.py, and this machine's loopback, in two processes:
//
//   bench_peer_fetch ARENA_DIR BYTES ROUNDS
//
// One process has an image in its arena and gives it; the other fetches it into an arena of its
// own, verified, and between that takes as many bytes over a bare socket, into memory that is warm:
// once with send() on the other side, once with sendfile(). Prints a JSON line for each of them.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cpu_seconds.h"
#include "paceline/agent/memory/fetch.h"
#include "paceline/agent/memory/peer_memory.h"
#include "paceline/base/check.h"
#include "paceline/base/prng.h"
#include "paceline/ckpt/image/save.h"

namespace paceline::agent {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kPieceBytes = size_t{1} << 20;

void Say(const char* what, int round, uint64_t bytes, double seconds, double cpu) {
  printf("{\"what\":\"%s\",\"round\":%d,\"seconds\":%.6f,\"bytes\":%llu,\"cpu\":%.4f}\n", what,
         round, seconds, static_cast<unsigned long long>(bytes), cpu);
  fflush(stdout);
}

std::unique_ptr<ckpt::Arena> SaveImage(ArenaShelf* shelf, uint64_t bytes) {
  const ArenaShelf::Place place{"giver", 0, false};
  CHECK(shelf->Prepare(place).ok(), "the arena's folder can be made");
  auto arena =
      ckpt::Arena::OpenOrMake(shelf->PathOf(place), {"bench", "boot", 0}, {bytes + (1 << 20), 2});
  CHECK(arena.ok() && (*arena)->Reserve(0).ok(), "there is memory for the arena");
  const ckpt::Image layout =
      *ckpt::LayOut({{.key = "w", .dtype = ckpt::DType::kU8, .shape = {bytes}, .offset = {0}}}, {});
  std::vector<uint64_t> words(bytes / 8);
  Prng prng(1);
  for (uint64_t& word : words) word = prng.Next();
  const std::vector<const void*> sources = {words.data()};
  const auto saved =
      ckpt::Save(arena->get(), layout, sources, {.saved = {1, 1}, .world_size = 1, .notes = "{}"});
  CHECK(saved.ok(), "it fits");
  shelf->Refresh();
  return *std::move(arena);
}

int ListenAnywhere(int* port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(::bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof(at)) == 0, "loopback can be bound");
  CHECK(::listen(fd, 4) == 0, "and listened on");
  socklen_t size = sizeof(at);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size);
  *port = ntohs(at.sin_port);
  return fd;
}

// For each connection: one byte says how ('s' send, 'f' sendfile), then all bytes.
void GiveRaw(int listening, const ckpt::Arena& arena) {
  const ArenaImage image = arena.Sealed().front();
  const std::span<const std::byte> file = arena.FileOf(image);
  for (;;) {
    const int fd = ::accept(listening, nullptr, nullptr);
    char how = 0;
    if (fd < 0 || ::read(fd, &how, 1) != 1) ::_exit(1);
    auto offset = static_cast<off_t>(arena.ImageOffset(image.slot));
    size_t at = 0;
    while (at < file.size()) {
      const size_t piece = std::min(kPieceBytes, file.size() - at);
      const ssize_t sent = how == 's' ? ::send(fd, file.data() + at, piece, MSG_NOSIGNAL)
                                      : ::sendfile(fd, arena.fd(), &offset, piece);
      if (sent <= 0) break;
      at += static_cast<size_t>(sent);
    }
    ::close(fd);
  }
}

void TakeRaw(int port, char how, uint64_t bytes, std::vector<char>* buffer) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(static_cast<uint16_t>(port));
  CHECK(::connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof(at)) == 0, "it listens");
  CHECK(::write(fd, &how, 1) == 1, "it reads");
  uint64_t taken = 0;
  while (taken < bytes) {
    const ssize_t got = ::recv(fd, buffer->data(), buffer->size(), 0);
    if (got <= 0) break;
    taken += static_cast<uint64_t>(got);
  }
  CHECK(taken >= bytes, "all bytes came");
  ::close(fd);
}

// As an agent does it, which keeps what it has fetched mapped.
void FetchOnce(const std::string& address, ArenaShelf* shelf, const wire::Credentials& own) {
  const ArenaShelf::Place place{"taker", 0, true};
  CHECK(shelf->Prepare(place).ok(), "the copy's folder can be made");
  const FetchOrder order{.rank = Rank(0),
                         .saved = {1, 1},
                         .sources = {{"giver", address, "giver", false}},
                         .is_urgent = true};
  const auto tls = wire::BulkTls::Make(own);
  const auto incoming =
      std::make_shared<IncomingImage>(IncomingImage::Place{shelf->PathOf(place),
                                                           {"bench", "boot", 0},
                                                           [](uint64_t) { return std::string(); },
                                                           shelf->Find(place)},
                                      order);
  const std::string problem = Fetch(incoming.get(), {own, tls->get(), ""});
  shelf->Refresh();
  if (problem.empty()) return;
  fprintf(stderr, "bench_peer_fetch: %s\n", problem.c_str());
  std::exit(1);
}

struct Ports {
  int raw = 0;
  int ours = 0;
};

// Forks the giving side; it ends with its parent.
Ports StartGiver(const std::string& dir, uint64_t bytes, const wire::Credentials& credentials) {
  int ends[2];
  CHECK(::pipe(ends) == 0, "a pipe");
  if (::fork() == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ArenaShelf shelf({dir + "/giver/bench"}, "bench", "boot");
    const auto arena = SaveImage(&shelf, bytes);
    auto reactor = Reactor::Create();
    auto memory = PeerMemory::Start(**reactor, &shelf, {"giver", "127.0.0.1", credentials}, [] {});
    CHECK(memory.ok(), "the server starts");
    const std::string& address = (*memory)->address();
    Ports ports{0, std::atoi(address.substr(address.rfind(':') + 1).c_str())};
    const int listening = ListenAnywhere(&ports.raw);
    CHECK(::write(ends[1], &ports, sizeof(ports)) == sizeof(ports), "the parent reads");
    GiveRaw(listening, *arena);
  }
  Ports ports;
  CHECK(::read(ends[0], &ports, sizeof(ports)) == sizeof(ports), "the giver is ready");
  return ports;
}

int Run(const std::string& dir, uint64_t bytes, int rounds) {
  ::signal(SIGPIPE, SIG_IGN);
  const std::string token = wire::MakeToken();
  const wire::ServerCredentials job = *wire::MakeServerCredentials("bench", token);
  const wire::Credentials plain{.token = token};
  const wire::Credentials secret = *wire::MakeClientCredentials(job, {"giver"});
  const Ports open = StartGiver(dir + "/plain", bytes, plain);
  const Ports closed = StartGiver(dir + "/tls", bytes, secret);
  ArenaShelf taker({dir + "/taker/bench"}, "bench", "boot");
  ArenaShelf taker_tls({dir + "/taker_tls/bench"}, "bench", "boot");
  std::vector<char> buffer(kPieceBytes, 1);
  const auto measure = [&](const char* what, int round, auto work) {
    const double cpu = bench::OwnCpuSeconds();
    const auto start = Clock::now();
    work();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    Say(what, round, bytes, seconds, bench::OwnCpuSeconds() - cpu);
  };
  for (int round = 0; round < rounds; ++round) {
    measure("raw_send", round, [&] { TakeRaw(open.raw, 's', bytes, &buffer); });
    measure("raw_sendfile", round, [&] { TakeRaw(open.raw, 'f', bytes, &buffer); });
    measure("fetch", round,
            [&] { FetchOnce("127.0.0.1:" + std::to_string(open.ours), &taker, plain); });
    measure("fetch_tls", round,
            [&] { FetchOnce("127.0.0.1:" + std::to_string(closed.ours), &taker_tls, secret); });
  }
  return 0;
}

}  // namespace
}  // namespace paceline::agent

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "bench_peer_fetch ARENA_DIR BYTES ROUNDS\n");
    return 2;
  }
  return paceline::agent::Run(argv[1], std::strtoull(argv[2], nullptr, 10), std::atoi(argv[3]));
}
