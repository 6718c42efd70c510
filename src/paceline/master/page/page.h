#pragma once

// The job's page for browsers on this host: its routes, its feed, and the codes of its links.
//
//   GET /              the page without data
//   POST /api/session  a link's code for a session
//   GET /api/page      the data: docs/schemas/page.json
//   GET /api/heat      the heat map, in binary: docs/formats/heat.md. Last-Event-ID names the
//                      version that the reader has, and the answer has what changed since
//   GET /api/feed      server-sent events: `record` (id: its number in the journal), `pulse` (the
//                      step and the speed, at each beat), `snapshot` (the reader missed events and
//                      needs new data) and `end` (the job has ended: get the last data)
//
// The loop sends records only after the first reader came.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "paceline/master/event_queue.h"
#include "paceline/master/page/door.h"
#include "paceline/master/page/feed_log.h"
#include "paceline/master/page/page_desk.h"
#include "paceline/master/report/http.h"

namespace paceline::master {

class Page {
 public:
  Page(std::string job_token, PageMaker maker, EventQueue* queue)
      : door_(std::move(job_token)), maker_(std::move(maker)), queue_(queue) {}

  // Before the journal starts. `last` is its last record.
  void Open(Journal* journal, RecordSeq last);
  // Before the journal ends.
  void Close() { desk_.reset(); }

  std::vector<HttpRoute> Routes();
  void Beat(size_t viewers);  // HttpServer::Options::on_beat
  void Serve(HttpServer* http) { http_ = http; }

  // On the journal's thread. Returns false if the event is not for the page alone.
  bool Take(JournalEvent* event);

  // On the loop's thread.
  void Take(const std::vector<wire::JobEvent>& events, bool is_last);
  wire::PageLink MakeLink();

 private:
  // All on the HTTP thread.
  bool TradeCode(const HttpRequest& request, const HttpReply& reply);
  bool SendData(const HttpReply& reply);
  bool SendHeat(const HttpRequest& request, const HttpReply& reply);
  std::string OpenFeed(const HttpRequest& request);
  void Watch(uint64_t known);
  void AskPulse();
  void Send(const std::vector<std::pair<uint64_t, std::string>>& frames, bool is_last);

  PageDoor door_;
  const PageMaker maker_;
  EventQueue* const queue_;
  HttpServer* http_ = nullptr;  // of the loop's thread
  std::atomic<uint64_t> durable_ = 0;
  std::unique_ptr<PageDesk> desk_;

  // Of the HTTP thread.
  FeedLog log_;
  bool is_watching_ = false;
  bool is_over_ = false;   // the last record was sent
  bool has_left_ = false;  // the loop needs no longer wait for readers
};

}  // namespace paceline::master
