// A journal whose rows were damaged but still are protobuf: every fact that is read must fold, be
// told in a sentence, and leave a job that goes on. Facts come one after the other, each behind two
// bytes of length.

#include "parts.h"

#include "google/protobuf/stubs/logging.h"
#include "paceline/core/job.h"
#include "paceline/wire/codec/journal_codec.h"

namespace paceline {
namespace {

constexpr uint64_t kFactsMax = 200;

std::vector<core::Record> Read(std::string_view bytes) {
  std::vector<core::Record> records;
  while (bytes.size() >= 2 && records.size() < kFactsMax) {
    const auto low = static_cast<uint8_t>(bytes[0]);
    const auto high = static_cast<uint8_t>(bytes[1]);
    const std::string_view body = bytes.substr(2, low + 256u * high);
    bytes.remove_prefix(2 + body.size());
    auto fact = wire::DecodeFact(body);
    if (!fact.ok()) continue;
    core::Record record;
    record.seq = RecordSeq(records.size() + 1);
    record.at = Instant() + Duration::Milliseconds(static_cast<int64_t>(records.size()));
    record.fact = *std::move(fact);
    records.push_back(std::move(record));
  }
  return records;
}

void GoOn(core::Job& job) {
  Instant now = job.state().last_record_at;
  job.Step(now, core::MasterStarted{7});
  for (int i = 0; i < 3; ++i) {
    core::NodeRegistered event;
    event.connection = ConnectionId(1);
    event.report.name = "node0";
    event.report.boot_id = "boot";
    event.report.agent_incarnation = 1;
    event.report.slots = 2;
    event.report.store_port = 29'500;
    event.report.version_minor = 1;
    event.report.generation = job.state().generation;
    now += Duration::Seconds(20);
    job.Step(now, event);
    job.Step(now, core::TimePassed{});
    (void)job.Pending();
  }
  job.Step(now, core::StopRequested{});
}

}  // namespace
}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const google::protobuf::LogSilencer silent;
  paceline::core::Job job;
  for (const auto& record : paceline::Read(paceline::fuzz::AsText(data, size))) {
    paceline::fuzz::Demand(!paceline::core::Sentence(record).empty(), "a fact has a sentence");
    job.Restore(record);
  }
  paceline::GoOn(job);
  return 0;
}
