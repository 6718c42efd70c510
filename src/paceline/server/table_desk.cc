#include "paceline/server/table_desk.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "paceline/base/json.h"
#include "paceline/base/text.h"

namespace paceline::server {

using ps::TableHead;
using ps::TableOp;
using ps::TableRefusal;

namespace {

// Bytes of a move, about. Workers wait while they are sent.
constexpr uint64_t kGivenBytes = uint64_t{2} << 20;

}  // namespace

TableDesk::Reply TableDesk::Answer(const TableHead& to, TableHead answer,
                                   std::string_view body) const {
  answer.number = to.number;
  answer.recovery = holding_.recovery();
  return {.frame = ps::EncodeFrame(answer, body)};
}

TableDesk::Reply TableDesk::Refuse(const TableHead& to, TableRefusal refusal,
                                   std::string_view why) const {
  Reply reply = Answer(to, {.op = TableOp::kRefused, .count = static_cast<uint32_t>(refusal)}, why);
  reply.is_last = refusal == TableRefusal::kMalformed || refusal == TableRefusal::kOtherServer;
  return reply;
}

TableDesk::Reply TableDesk::Malformed(const std::string& why) {
  const TableHead head{.op = TableOp::kRefused,
                       .count = static_cast<uint32_t>(TableRefusal::kMalformed)};
  return {.frame = ps::EncodeFrame(head, why), .is_last = true};
}

TableDesk::Reply TableDesk::Handle(const TableHead& head, std::span<const std::byte> body,
                                   bool* is_greeted) {
  if (head.op == TableOp::kHello) return Hello(head, body, is_greeted);
  if (!*is_greeted) return Refuse(head, TableRefusal::kMalformed, "the first frame is no hello");
  if (std::optional<Reply> other = AtGate(head)) return *std::move(other);
  switch (head.op) {
    case TableOp::kOpen: return Open(head, body);
    case TableOp::kPull: return Pull(head, body);
    case TableOp::kInit: return Init(head, body);
    case TableOp::kPush: return Push(head, body);
    case TableOp::kCounts: return Answer(head, {.op = TableOp::kCounted}, CountsText());
    case TableOp::kExport: return Export(head);
    case TableOp::kChanged: return Changed(head, body);
    case TableOp::kRoute: return Route(head);
    case TableOp::kGive: return Give(head, body);
    default: return Refuse(head, TableRefusal::kMalformed, "a worker does not send such a frame");
  }
}

std::optional<TableDesk::Reply> TableDesk::AtGate(const TableHead& head) const {
  const bool is_change = head.op == TableOp::kPush || head.op == TableOp::kInit;
  const bool is_of_rows = is_change || head.op == TableOp::kPull || head.op == TableOp::kExport ||
                          head.op == TableOp::kChanged;
  if (share_ == nullptr || !is_of_rows) return std::nullopt;
  switch (share_->GateOf(head.recovery, is_change)) {
    case ps::PartitionShare::Gate::kServe: return std::nullopt;
    case ps::PartitionShare::Gate::kWait: return Reply{.frame = {}, .waits = true};
    case ps::PartitionShare::Gate::kMoved: break;
  }
  return Route(head);
}

TableDesk::Reply TableDesk::Route(const TableHead& head) const {
  const TableRouting routing =
      share_ == nullptr ? TableRouting(place_.servers) : share_->news().routing;
  return Answer(head, {.op = TableOp::kMoved}, ps::EncodeRouting(routing));
}

TableDesk::Reply TableDesk::Give(const TableHead& head, std::span<const std::byte> body) {
  const auto give = ps::DecodeGive(body);
  if (!give) return Refuse(head, TableRefusal::kMalformed, "a request for partitions is malformed");
  const Giving terms = giving ? giving() : Giving{};
  std::optional<std::vector<std::string>> images;
  if (share_ != nullptr && terms.may_give) images = share_->Give(give->id, give->to, kGivenBytes);
  if (!images) return Answer(head, {.op = TableOp::kGiven}, ps::EncodeImages({}));
  const auto count = static_cast<uint32_t>(images->size());
  return Answer(head, {.op = TableOp::kGiven, .count = count},
                ps::EncodeImages({.snapshot = terms.snapshot, .images = *std::move(images)}));
}

TableDesk::Reply TableDesk::Hello(const TableHead& head, std::span<const std::byte> body,
                                  bool* is_greeted) {
  const auto hello = ps::DecodeHello(body);
  if (!hello) return Refuse(head, TableRefusal::kMalformed, "the hello is malformed");
  if (hello->version != ps::kTableFramesVersion) {
    return Refuse(head, TableRefusal::kOtherServer,
                  Concat("the worker speaks version ", hello->version, ", and the server ",
                         ps::kTableFramesVersion));
  }
  // A command that only counts expects no particular server.
  const bool is_any = hello->servers == 0;
  if (!is_any && (hello->server != place_.server || hello->job != place_.job)) {
    return Refuse(head, TableRefusal::kOtherServer,
                  Concat("this is server ", place_.server, ", and the worker looks for server ",
                         hello->server, hello->job == place_.job ? "" : " of another job"));
  }
  *is_greeted = true;
  const ps::TableHello own{.server = place_.server,
                           .servers = place_.servers,
                           .job = place_.job,
                           .incarnation = place_.incarnation};
  return Answer(head, {.op = TableOp::kWelcome}, ps::EncodeHello(own));
}

TableDesk::Reply TableDesk::Open(const TableHead& head, std::span<const std::byte> body) {
  const std::string_view text(reinterpret_cast<const char*>(body.data()), body.size());
  const auto spec = ps::ParseSpec(text);
  if (!spec) return Refuse(head, TableRefusal::kMalformed, "the spec of a table is malformed");
  const uint32_t before = holding_.tables();
  const Result<uint32_t> table = holding_.Open(*spec);
  if (!table.ok()) {
    const bool differs = table.failure().kind == FailureKind::kExists;
    return Refuse(head, differs ? TableRefusal::kDiffers : TableRefusal::kInvalid,
                  table.failure().message);
  }
  if (holding_.tables() > before) ++opened_;
  return Answer(head, {.op = TableOp::kOpened, .table = *table}, "");
}

TableDesk::Reply TableDesk::Pull(const TableHead& head, std::span<const std::byte> body) {
  const auto reads = ps::DecodeReads(head.count, body);
  if (!reads) return Refuse(head, TableRefusal::kMalformed, "a pull is malformed");
  uint64_t floats = 0;
  for (const ps::TableKeys& read : *reads) {
    if (read.table >= holding_.tables()) {
      return Refuse(head, TableRefusal::kUnknownTable,
                    Concat("table ", read.table, " is not open"));
    }
    floats += read.keys.size() * holding_.Spec(read.table).dim;
  }
  if (floats * sizeof(float) > ps::kTableBodyMax) {
    return Refuse(head, TableRefusal::kInvalid,
                  Concat("the rows of one pull have ", floats * sizeof(float),
                         " bytes, and a frame carries at most ", ps::kTableBodyMax));
  }
  const bool is_training = (head.flags & TableHead::kTraining) != 0;
  std::vector<float> rows(floats);
  std::span<float> rest(rows);
  for (const ps::TableKeys& read : *reads) {
    const size_t size = read.keys.size() * holding_.Spec(read.table).dim;
    holding_.Pull(read.table, read.keys, is_training, rest.first(size));
    rest = rest.subspan(size);
    work_.keys += read.keys.size();
  }
  ++work_.pulls;
  const auto bytes = std::as_bytes(std::span(rows));
  return Answer(head, {.op = TableOp::kRows},
                {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

TableDesk::Reply TableDesk::Init(const TableHead& head, std::span<const std::byte> body) {
  if (head.table >= holding_.tables()) {
    return Refuse(head, TableRefusal::kUnknownTable, Concat("table ", head.table, " is not open"));
  }
  const auto rows = ps::DecodeRows(head.count, holding_.Spec(head.table).dim, body);
  if (!rows) return Refuse(head, TableRefusal::kMalformed, "an init is malformed");
  const uint64_t missing = holding_.Init(head.table, rows->keys, rows->values);
  work_.inits += missing;
  return Answer(head, {.op = TableOp::kInited, .count = static_cast<uint32_t>(missing)}, "");
}

TableDesk::Reply TableDesk::Push(const TableHead& head, std::span<const std::byte> body) {
  const auto push = ps::DecodePush(head.count, body);
  if (!push) return Refuse(head, TableRefusal::kMalformed, "a push is malformed");
  std::vector<ps::TableGradient> gradients;
  gradients.reserve(push->gradients.size());
  for (const ps::SentGradient& one : push->gradients) gradients.push_back(one.gradient);
  std::string why;
  const ps::PushAnswer answer = holding_.Push(push->tag, gradients, &why);
  ++(answer == ps::PushAnswer::kApplied   ? work_.applied
     : answer == ps::PushAnswer::kSkipped ? work_.skipped
                                          : work_.refused);
  if (answer == ps::PushAnswer::kOverlaps) {
    why = ps::EncodeOverlap({.parts = holding_.PartsOf(push->tag), .why = why});
  }
  return Answer(head, {.op = TableOp::kPushed, .count = static_cast<uint32_t>(answer)}, why);
}

TableDesk::Reply TableDesk::Export(const TableHead& head) {
  if (head.table >= holding_.tables() || head.count >= ps::kPartitions) {
    return Refuse(head, TableRefusal::kUnknownTable,
                  Concat("table ", head.table, " has no partition ", head.count));
  }
  std::vector<uint64_t> keys;
  std::vector<float> values;
  holding_.Visit(head.table, head.count, [&](uint64_t key, std::span<const float> row) {
    keys.push_back(key);
    values.insert(values.end(), row.begin(), row.end());
  });
  const std::string body = ps::EncodeRows(keys, values);
  if (body.size() > ps::kTableBodyMax) {
    return Refuse(head, TableRefusal::kInvalid,
                  Concat("a partition has ", body.size(), " bytes, and a frame carries at most ",
                         ps::kTableBodyMax));
  }
  return Answer(
      head,
      {.op = TableOp::kExported, .table = head.table, .count = static_cast<uint32_t>(keys.size())},
      body);
}

TableDesk::Reply TableDesk::Changed(const TableHead& head, std::span<const std::byte> body) {
  uint64_t number = 0;
  if (body.size() != sizeof(number)) {
    return Refuse(head, TableRefusal::kMalformed, "a request for changes is malformed");
  }
  std::memcpy(&number, body.data(), sizeof(number));
  if (head.table >= holding_.tables()) {
    return Refuse(head, TableRefusal::kUnknownTable, Concat("table ", head.table, " is not open"));
  }
  const std::vector<uint64_t>* const all = head.count == 0
                                               ? holding_.TakeChanged(head.table, number)
                                               : holding_.Taken(head.table, number);
  TableHead answer{.op = TableOp::kChanges, .table = head.table};
  if (all == nullptr) {
    answer.flags = TableHead::kAll;
    return Answer(head, answer, "");
  }
  const size_t at_once = ps::ChangesAtOnce(holding_.Spec(head.table).dim);
  const size_t begin = std::min(head.count * at_once, all->size());
  const size_t end = std::min(begin + at_once, all->size());
  std::vector<uint64_t> keys;
  std::vector<float> values;
  const auto some = std::span(*all).subspan(begin, end - begin);
  holding_.VisitKeys(head.table, some, [&](uint64_t key, std::span<const float> row) {
    keys.push_back(key);
    values.insert(values.end(), row.begin(), row.end());
  });
  answer.count = static_cast<uint32_t>(keys.size());
  if (end < all->size()) answer.flags = TableHead::kMore;
  return Answer(head, answer, ps::EncodeRows(keys, values));
}

std::string TableDesk::CountsText() const {
  nlohmann::ordered_json json = {{"server", place_.server},  {"incarnation", place_.incarnation},
                                 {"pulls", work_.pulls},     {"keys", work_.keys},
                                 {"applied", work_.applied}, {"skipped", work_.skipped},
                                 {"refused", work_.refused}, {"longest_ns", work_.longest_ns}};
  if (share_ != nullptr) {
    json["partitions"] = share_->own().count();
    json["routing"] = share_->news().routing.version();
  }
  json["tables"] = nlohmann::ordered_json::array();
  for (uint32_t table = 0; table < holding_.tables(); ++table) {
    const ps::TableCounts counts = holding_.Counts(table);
    json["tables"].push_back({{"spec", ps::EncodeSpec(holding_.Spec(table))},
                              {"name", holding_.Spec(table).name},
                              {"dim", holding_.Spec(table).dim},
                              {"optimizer", holding_.Spec(table).optimizer.name},
                              {"rows", counts.rows},
                              {"bytes", counts.bytes},
                              {"budget_bytes", counts.budget_bytes},
                              {"admitted", counts.admitted},
                              {"refused", counts.refused},
                              {"is_closed", counts.is_closed}});
  }
  return PrintJson(json);
}

}  // namespace paceline::server
