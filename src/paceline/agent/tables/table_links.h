#pragma once

// The agent's part in connections between workers and table servers of different hosts. A worker
// always connects to a Unix socket of its own host. If the server is elsewhere, the agent listens
// on that socket, and sends the bytes to the agent of the server's host;
// docs/formats/table_frames.md, docs/adr/0030.
//
//   worker ── Unix socket ── agent ══ TCP, proof, TLS ══ agent ── Unix socket ── table server
//
// A thread of its own opens and closes the links, because closing waits for connections.

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "paceline/agent/socket/local_server.h"
#include "paceline/model/world.h"
#include "paceline/wire/bulk/table_bridge.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::agent {

// What is linked with other hosts, by an order of the master.
struct WantedLinks {
  std::map<std::string, std::string> sockets;  // for workers here → HOST:PORT of the server's gate
  std::map<uint32_t, std::string> gates;       // port of a gate here → socket of the server
  bool operator==(const WantedLinks&) const = default;
};

struct LinksPlace {
  bool has_tables = false;  // false: the job has no table servers, and nothing is linked
  std::string host;         // this host's address in the job
  std::string beside;       // the agent's socket for leases
  std::string run_dir;      // of this host
};

// Nothing if all tasks are on this host, or the job has no table servers.
WantedLinks LinksOf(const Assignment& order, const LinksPlace& place);

class TableLinks {
 public:
  TableLinks(LinksPlace place, wire::Credentials credentials)
      : place_(std::move(place)), credentials_(std::move(credentials)) {}
  // Closes all links.
  ~TableLinks();
  TableLinks(const TableLinks&) = delete;
  TableLinks& operator=(const TableLinks&) = delete;

  // The links follow soon. A link that cannot be opened is tried again, and logged once.
  void Take(const Assignment& order);

 private:
  struct NearEnd {
    std::string address;
    std::unique_ptr<LocalServer> server;
  };
  struct FarEnd {
    std::string socket;
    std::unique_ptr<wire::TableGate> gate;
  };

  void Work();
  // False: something could not be opened.
  bool Arrange(const WantedLinks& wanted);
  bool OpenSocket(const std::string& path, const std::string& address);
  bool OpenGate(uint32_t port, const std::string& socket);
  void TellOnce(const std::string& what, const std::string& why);

  const LinksPlace place_;
  const wire::Credentials credentials_;
  std::unique_ptr<wire::BulkTls> tls_;  // of the thread, as the next three
  std::map<std::string, NearEnd> sockets_;
  std::map<uint32_t, FarEnd> gates_;
  std::map<std::string, std::string> told_;  // what could not be opened, and why
  std::mutex mutex_;                         // guards the next three
  std::condition_variable changed_;
  std::optional<WantedLinks> wanted_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace paceline::agent
