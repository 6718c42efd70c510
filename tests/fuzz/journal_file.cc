// journal.db as anybody may have left it: read by a command, then opened by a master, which must
// either take it or say that it is damaged.

#include <unistd.h>

#include "google/protobuf/stubs/logging.h"
#include "paceline/base/test_dir.h"
#include "paceline/master/journal/journal.h"
#include "paceline/master/journal/journal_file.h"
#include "parts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const google::protobuf::LogSilencer silent;
  static const paceline::TestDir folder(paceline::TestDir::InMemory());
  const std::string_view text = paceline::fuzz::AsText(data, size);
  (void)paceline::master::DecodeCauses(text.substr(0, 64)).ok();
  const std::string path = folder.Write("journal.db", text);
  for (const char* beside : {"-wal", "-shm"}) ::unlink((path + beside).c_str());
  const auto read = paceline::master::ReadJournal(path);
  std::vector<paceline::core::Record> records;
  const auto journal = paceline::master::Journal::Open({.path = path}, &records);
  if (journal.ok() && read.ok()) {
    paceline::fuzz::Demand(records.size() == read->size(), "command and master read the same");
  }
  return 0;
}
