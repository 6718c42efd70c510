#include "paceline/server/table_desk.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/json.h"

namespace paceline::server {
namespace {

using ps::TableHead;
using ps::TableOp;

struct Told {
  TableHead head;
  std::string body;
  bool is_last = false;
};

// A worker that is greeted, and the desk of server 1 of 2.
class DeskTest : public ::testing::Test {
 protected:
  Told Say(TableHead head, std::string_view body) {
    head.bytes = body.size();
    head.number = ++number_;
    std::vector<uint64_t> aligned(body.size() / 8 + 1);
    std::copy(body.begin(), body.end(), reinterpret_cast<char*>(aligned.data()));
    const TableDesk::Reply reply =
        desk_.Handle(head, std::as_bytes(std::span(aligned)).first(body.size()), &is_greeted_);
    const auto read = ps::ReadHead(std::as_bytes(std::span(reply.frame)));
    EXPECT_TRUE(read.has_value());
    EXPECT_EQ(read->head.number, number_);
    return {read->head, reply.frame.substr(ps::kTableHeadBytes), reply.is_last};
  }
  Told Greet() {
    return Say({.op = TableOp::kHello}, ps::EncodeHello({.server = 1, .servers = 2, .job = 5}));
  }
  uint32_t Open(uint32_t dim = 2) {
    const ps::TableSpec spec{
        .name = "ads", .dim = dim, .optimizer = {.name = "sgd", .rate = 1}, .scale = 0};
    const Told told = Say({.op = TableOp::kOpen}, ps::EncodeSpec(spec));
    return told.head.op == TableOp::kOpened ? told.head.table : UINT32_MAX;
  }
  std::vector<float> Pull(uint32_t table, const std::vector<uint64_t>& keys) {
    const std::array<ps::TableKeys, 1> reads = {ps::TableKeys{table, keys}};
    const Told told = Say({.op = TableOp::kPull, .flags = TableHead::kTraining, .count = 1},
                          ps::EncodeReads(reads));
    EXPECT_EQ(told.head.op, TableOp::kRows);
    std::vector<float> rows(told.body.size() / sizeof(float));
    std::copy(told.body.begin(), told.body.end(), reinterpret_cast<char*>(rows.data()));
    return rows;
  }
  ps::PushAnswer Push(uint32_t table, uint64_t key, std::vector<float> gradient, OrdinalRange batch,
                      uint32_t dim = 2) {
    const std::array<uint64_t, 1> keys = {key};
    const std::array<ps::SentGradient, 1> sent = {
        ps::SentGradient{{.table = table, .keys = keys, .values = gradient}, dim}};
    const Told told =
        Say({.op = TableOp::kPush, .count = 1}, ps::EncodePush({.set = 3, .batch = {batch}}, sent));
    EXPECT_EQ(told.head.op, TableOp::kPushed) << told.body;
    return static_cast<ps::PushAnswer>(told.head.count);
  }

  ps::Holding holding_;
  TableDesk desk_{{.server = 1, .servers = 2, .job = 5, .incarnation = 4}, &holding_};
  bool is_greeted_ = false;
  uint64_t number_ = 0;
};

TEST_F(DeskTest, ABatchCountsOnce) {
  EXPECT_EQ(Greet().head.op, TableOp::kWelcome);
  const uint32_t table = Open();
  EXPECT_EQ(Push(table, 9, {-1, -2}, {0, 4}), ps::PushAnswer::kApplied);
  EXPECT_EQ(Push(table, 9, {-1, -2}, {0, 4}), ps::PushAnswer::kSkipped);
  EXPECT_EQ(Push(table, 9, {-1, -2}, {2, 6}), ps::PushAnswer::kOverlaps);
  EXPECT_EQ(Push(table, 9, {NAN, 0}, {4, 8}), ps::PushAnswer::kNotFinite);
  EXPECT_EQ(Pull(table, {9}), (std::vector<float>{1, 2}));
  EXPECT_EQ(desk_.work().applied, 1u);
  EXPECT_EQ(desk_.work().skipped, 1u);
  EXPECT_EQ(desk_.work().refused, 2u);
}

TEST_F(DeskTest, AServerOfAnotherNumberOrJobRefuses) {
  for (const ps::TableHello& other : {ps::TableHello{.server = 0, .servers = 2, .job = 5},
                                      ps::TableHello{.server = 1, .servers = 2, .job = 6}}) {
    const Told told = Say({.op = TableOp::kHello}, ps::EncodeHello(other));
    EXPECT_EQ(told.head.op, TableOp::kRefused);
    EXPECT_TRUE(told.is_last);
    EXPECT_FALSE(is_greeted_);
  }
}

TEST_F(DeskTest, NothingIsAnsweredBeforeTheGreeting) {
  const Told told = Say({.op = TableOp::kCounts}, "");
  EXPECT_EQ(told.head.op, TableOp::kRefused);
  EXPECT_TRUE(told.is_last);
}

TEST_F(DeskTest, AnotherDimIsRefusedAndTheTableStays) {
  Greet();
  const uint32_t table = Open();
  EXPECT_EQ(Open(/*dim=*/3), UINT32_MAX);
  EXPECT_EQ(Open(), table);
}

TEST_F(DeskTest, AnUnknownTableIsRefusedByName) {
  Greet();
  const std::array<uint64_t, 1> keys = {1};
  const std::array<ps::TableKeys, 1> reads = {ps::TableKeys{8, keys}};
  const Told told = Say({.op = TableOp::kPull, .count = 1}, ps::EncodeReads(reads));
  EXPECT_EQ(told.head.op, TableOp::kRefused);
  EXPECT_EQ(told.head.count, static_cast<uint32_t>(ps::TableRefusal::kUnknownTable));
  EXPECT_FALSE(told.is_last);
}

TEST_F(DeskTest, ExportVisitsEachRowInItsPartition) {
  Greet();
  const uint32_t table = Open();
  Push(table, 9, {-1, -2}, {0, 4});
  const uint32_t partition = ps::PartitionOf(ps::TableKeyOf("ads"), 9);
  for (uint32_t i = 0; i < ps::kPartitions; ++i) {
    const Told told = Say({.op = TableOp::kExport, .table = table, .count = i}, "");
    ASSERT_EQ(told.head.op, TableOp::kExported);
    EXPECT_EQ(told.head.count, i == partition ? 1u : 0u);
  }
}

TEST_F(DeskTest, ChangesComeInPages) {
  Greet();
  const uint32_t table = Open();
  const auto ask = [&](uint64_t version, uint32_t page) {
    return Say({.op = TableOp::kChanged, .table = table, .count = page},
               {reinterpret_cast<const char*>(&version), sizeof(version)});
  };
  EXPECT_EQ(ask(1, 0).head.flags, TableHead::kAll);
  Push(table, 9, {-1, -2}, {0, 4});
  const Told told = ask(2, 0);
  EXPECT_EQ(told.head.op, TableOp::kChanges);
  EXPECT_EQ(told.head.flags, 0);
  EXPECT_EQ(told.head.count, 1u);
  EXPECT_EQ(ask(2, 1).head.count, 0u) << "there is no second page";
  EXPECT_EQ(Say({.op = TableOp::kChanged, .table = table}, "12345678").head.flags, TableHead::kAll);
  EXPECT_EQ(Say({.op = TableOp::kChanged, .table = 9}, "12345678").head.op, TableOp::kRefused);
}

TEST_F(DeskTest, CountsTellRowsAndPushes) {
  Greet();
  const uint32_t table = Open();
  Push(table, 9, {-1, -2}, {0, 4});
  const auto json = ParseJson(Say({.op = TableOp::kCounts}, "").body);
  EXPECT_EQ(json["server"], 1);
  EXPECT_EQ(json["applied"], 1);
  EXPECT_EQ(json["tables"][0]["name"], "ads");
  EXPECT_EQ(json["tables"][0]["rows"], 1);
}

// A desk with a share: server 0 of one, and a move of all that server 1 lacks.
TEST(SharedDeskTest, WorkersAreToldOfRoutingAndOtherServersGetPartitions) {
  ps::Holding holding;
  ps::PartitionShare share({.server = 0, .generation = 7}, &holding);
  const TableRouting routing(1);
  share.Begin({.id = 5, .routing = routing, .move = NextTableMove(routing, 2, 5)});
  TableDesk desk({.server = 0, .servers = 1, .job = 5, .incarnation = 7}, &holding, &share);
  desk.giving = [] { return TableDesk::Giving{.may_give = true, .snapshot = 33}; };
  bool is_greeted = true;
  const auto say = [&](TableHead head, std::string_view body) {
    head.bytes = body.size();
    std::vector<uint64_t> aligned(body.size() / 8 + 1);
    std::copy(body.begin(), body.end(), reinterpret_cast<char*>(aligned.data()));
    return desk.Handle(head, std::as_bytes(std::span(aligned)).first(body.size()), &is_greeted);
  };
  const auto op_of = [](const TableDesk::Reply& reply) {
    return ps::ReadHead(std::as_bytes(std::span(reply.frame)))->head.op;
  };
  const std::string pull = ps::EncodeReads({});
  const std::string push = ps::EncodePush({.set = 1, .batch = {{0, 1}}}, {});
  const TableDesk::Reply told = say({.op = TableOp::kPull, .recovery = 0}, pull);
  EXPECT_EQ(op_of(told), TableOp::kMoved);
  const std::string body = told.frame.substr(ps::kTableHeadBytes);
  EXPECT_EQ(ps::DecodeRouting(std::as_bytes(std::span(body))), routing);
  EXPECT_EQ(op_of(say({.op = TableOp::kRoute}, "")), TableOp::kMoved);
  EXPECT_TRUE(say({.op = TableOp::kPull, .recovery = 2}, pull).waits);
  EXPECT_EQ(op_of(say({.op = TableOp::kPush, .recovery = 1}, push)), TableOp::kPushed);

  const std::string give = ps::EncodeGive({.id = 5, .to = 1});
  const TableDesk::Reply given = say({.op = TableOp::kGive}, give);
  const auto head = ps::ReadHead(std::as_bytes(std::span(given.frame)))->head;
  EXPECT_EQ(head.count, kMovedAtOnceMax);
  const std::string images = given.frame.substr(ps::kTableHeadBytes);
  EXPECT_EQ(ps::DecodeImages(head.count, std::as_bytes(std::span(images)))->snapshot, 33u);
  EXPECT_TRUE(say({.op = TableOp::kPush, .recovery = 1}, push).waits) << "partitions are frozen";
  EXPECT_EQ(op_of(say({.op = TableOp::kPull, .recovery = 1}, pull)), TableOp::kRows);

  desk.giving = [] { return TableDesk::Giving{.may_give = false}; };
  const TableDesk::Reply later = say({.op = TableOp::kGive}, give);
  EXPECT_EQ(ps::ReadHead(std::as_bytes(std::span(later.frame)))->head.count, 0u);
}

}  // namespace
}  // namespace paceline::server
