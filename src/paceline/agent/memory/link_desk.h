#pragma once

// Carries out the master's orders to test the link to another host, on a thread of its own. One
// test runs at a time. An order that comes meanwhile waits until the test is over. Only the newest
// order waits: the master asks no longer for what an older one was about.

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "paceline/agent/socket/reactor.h"
#include "paceline/model/link_test.h"
#include "paceline/wire/bulk/bulk_socket.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::agent {

class LinkDesk {
 public:
  using Tell = std::function<void(const LinkTested&)>;

  // `reactor` must outlive the desk. `tell` is called on the reactor's thread.
  LinkDesk(Reactor& reactor, wire::Credentials credentials, Tell tell)
      : reactor_(reactor), credentials_(std::move(credentials)), tell_(std::move(tell)) {}
  // Waits for the running test, at most kLinkTime.
  ~LinkDesk();
  LinkDesk(const LinkDesk&) = delete;
  LinkDesk& operator=(const LinkDesk&) = delete;

  void Try(LinkTry order);

 private:
  void Begin(const LinkTry& order);
  void OnEnded(const LinkTested& tested);

  Reactor& reactor_;
  const wire::Credentials credentials_;
  const Tell tell_;
  std::unique_ptr<wire::BulkTls> tls_;  // made for the first test
  std::optional<LinkTry> waiting_;
  // False when this object is gone: posted work checks it.
  const std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
  std::thread thread_;
};

}  // namespace paceline::agent
