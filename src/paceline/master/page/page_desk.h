#pragma once

// Makes the data of the job's page, on a thread of its own: the loop only gives the job's status.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "paceline/core/record.h"
#include "paceline/master/event_queue.h"
#include "paceline/master/journal/journal.h"
#include "paceline/master/page/page_maker.h"
#include "paceline/wire/messages.h"

namespace paceline::master {

class PageDesk {
 public:
  // Called with the data, or with "" if the master did not answer in time.
  using Reply = std::function<void(std::string)>;

  PageDesk(PageMaker maker, EventQueue* queue, Journal* journal);
  ~PageDesk();
  PageDesk(const PageDesk&) = delete;
  PageDesk& operator=(const PageDesk&) = delete;

  // Any thread. Those that ask while the data is made get the next one, together.
  void Ask(Reply reply);

  // The journal's answer, on its thread. Returns false if it was not asked for here.
  bool Take(RecordsRead* read);

 private:
  void Work();
  std::string Make();
  std::optional<wire::JobStatus> AskStatus();
  void ReadNew();

  const PageMaker maker_;
  EventQueue* const queue_;
  Journal* const journal_;
  std::vector<core::Record> records_;  // all that were read; of the desk's thread

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::vector<Reply> asked_;
  std::optional<RecordsRead> read_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace paceline::master
