// Real servers and clients over loopback: registration, reconnection, authentication, and clients
// that send too much.

#include <deque>
#include <thread>

#include "google/protobuf/descriptor.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "paceline/v1/control.grpc.pb.h"
#include "paceline/v1/master.grpc.pb.h"
#include "paceline/wire/client/agent_stream.h"
#include "paceline/wire/client/channel.h"
#include "paceline/wire/client/control_client.h"
#include "paceline/wire/codec/to_proto.h"
#include "paceline/wire/security/peer_limits.h"
#include "paceline/wire/server/master_server.h"
#include "paceline/wire/server/stream_fixture.h"

namespace paceline::wire {
namespace {

TEST_F(StreamTest, AnAgentRegistersReportsAndIsTold) {
  Serve();
  Heard<AgentStreamEvent> agent_heard;
  const auto agent = Agent(&agent_heard);
  ASSERT_TRUE(agent_heard.Next<StreamOpened>());
  EXPECT_FALSE(agent->Send(Heartbeat{})) << "nothing goes before the registration";
  ASSERT_TRUE(agent->Send(Register{TestReport("node0")}));
  const auto said = heard_.Next<AgentSaid>();
  ASSERT_TRUE(said);
  EXPECT_EQ(std::get<Register>(said->message).report, TestReport("node0"));

  server_->Send(said->connection, Welcome{.node = NodeId(5), .spec = {.job_id = "j"}});
  server_->Send(said->connection, Assignment{.reason = "first"});
  EXPECT_EQ(agent_heard.Next<Welcome>()->node, NodeId(5));
  EXPECT_EQ(agent_heard.Next<Assignment>()->reason, "first");
  agent->Send(Heartbeat{.store_port = 7});
  EXPECT_EQ(std::get<Heartbeat>(heard_.Next<AgentSaid>()->message).store_port, 7u);
  server_->Close(said->connection, "fenced");
  EXPECT_EQ(agent_heard.Next<StreamBroken>()->why, "fenced");
  EXPECT_EQ(heard_.Next<AgentDisconnected>()->connection, said->connection);
  ASSERT_TRUE(agent_heard.Next<StreamOpened>()) << "it comes back by itself";
}

TEST_F(StreamTest, AnAgentFindsTheNextMaster) {
  Serve();
  Heard<AgentStreamEvent> agent_heard;
  const auto agent = Agent(&agent_heard);
  RegisterWithEachMaster(agent.get(), &agent_heard);
}

TEST_F(StreamTest, ARefusalIsHeardAndIsFinal) {
  Serve();
  Heard<AgentStreamEvent> agent_heard;
  const auto agent = Agent(&agent_heard);
  const auto said = RegisterOnce(agent.get(), &agent_heard);
  ASSERT_TRUE(said);
  const Refusal refusal{"PL-E036", "what", "why", "fix"};
  server_->Send(said->connection, refusal);
  EXPECT_EQ(agent_heard.Next<Refusal>(), refusal);
  ASSERT_TRUE(heard_.Next<AgentDisconnected>());
}

TEST_F(StreamTest, OnlyTheLastUnsentAssignmentIsKept) {
  Serve();
  Heard<AgentStreamEvent> agent_heard;
  const auto agent = Agent(&agent_heard);
  const auto said = RegisterOnce(agent.get(), &agent_heard);
  ASSERT_TRUE(said);
  for (uint32_t i = 1; i <= 1000; ++i) {
    server_->Send(said->connection, Assignment{.generation = Generation(i)});
  }
  Generation last;
  while (last < Generation(1000)) {
    const auto assignment = agent_heard.Next<Assignment>();
    ASSERT_TRUE(assignment);
    EXPECT_LT(last, assignment->generation);
    last = assignment->generation;
  }
}

TEST_F(StreamTest, AQuestionOfAPersonAndOneOfTheMasterAreBothSent) {
  Serve();
  Heard<AgentStreamEvent> agent_heard;
  const auto agent = Agent(&agent_heard);
  const auto said = RegisterOnce(agent.get(), &agent_heard);
  ASSERT_TRUE(said);
  // The assignments occupy the stream, so the questions wait beside each other.
  for (uint32_t i = 1; i <= 1000; ++i) {
    server_->Send(said->connection, Assignment{.generation = Generation(i)});
    server_->Send(said->connection, EvidenceOrder{Generation(1), kAskedByPerson | i});
    server_->Send(said->connection, EvidenceOrder{Generation(1), i});
  }
  bool has_persons = false;
  bool has_masters = false;
  while (!has_persons || !has_masters) {
    const auto order = agent_heard.Next<EvidenceOrder>();
    ASSERT_TRUE(order) << (has_persons ? "of the master" : "of the person");
    has_persons = has_persons || order->round == (kAskedByPerson | 1000);
    has_masters = has_masters || order->round == 1000;
  }
}

TEST_F(StreamTest, EachQuestionAboutRingsIsSent) {
  Serve();
  Heard<AgentStreamEvent> agent_heard;
  const auto agent = Agent(&agent_heard);
  const auto said = RegisterOnce(agent.get(), &agent_heard);
  ASSERT_TRUE(said);
  for (uint64_t id = 1; id <= 100; ++id) {
    server_->Send(said->connection, RingsWanted{id, {.rank = 3}});
  }
  for (uint64_t id = 1; id <= 100; ++id) {
    const auto wanted = agent_heard.Next<RingsWanted>();
    ASSERT_TRUE(wanted);
    EXPECT_EQ(wanted->id, id);
  }
}

TEST_F(StreamTest, NonsenseEndsTheStreamAndNothingElse) {
  Serve();
  const auto channel = Dial(address_, client_credentials_);
  ASSERT_TRUE(channel.ok()) << channel.status();
  const auto stub = pb::Master::NewStub(*channel);
  const auto refused = [&](const pb::AgentMessage& first, const pb::AgentMessage& second) {
    grpc::ClientContext context;
    AddToken(&context, client_credentials_);
    const auto stream = stub->Attach(&context);
    stream->Write(first);
    stream->Write(second);
    pb::MasterMessage answer;
    while (stream->Read(&answer)) {
    }
    return stream->Finish().error_code();
  };
  pb::AgentMessage good;
  ToProto(Register{TestReport("node0")}, &good);
  pb::AgentMessage beat;
  ToProto(Heartbeat{}, &beat);
  pb::AgentMessage large = good;
  large.mutable_register_()->set_boot_id(std::string(300'000, 'x'));
  pb::AgentMessage huge = good;
  huge.mutable_register_()->set_boot_id(std::string(3'000'000, 'x'));
  EXPECT_EQ(refused({}, {}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refused(beat, beat), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refused(good, good), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refused(large, good), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(refused(huge, good), grpc::StatusCode::OK);
  // The server still serves.
  Heard<AgentStreamEvent> agent_heard;
  const auto agent = Agent(&agent_heard);
  ASSERT_TRUE(agent_heard.Next<StreamOpened>());
}

// The outcome of any call with an empty message.
grpc::StatusCode OutcomeOf(grpc::GenericStub* stub, const std::string& name,
                           const std::string& authorization) {
  grpc::ClientContext context;
  if (!authorization.empty()) context.AddMetadata("authorization", authorization);
  grpc::CompletionQueue queue;
  const auto stream = stub->PrepareCall(&context, name, &queue);
  void* tag = nullptr;
  bool ok = false;
  stream->StartCall(nullptr);
  queue.Next(&tag, &ok);
  // An empty message is valid for every request type. The check comes before it is read.
  stream->WriteLast(grpc::ByteBuffer(nullptr, 0), grpc::WriteOptions(), nullptr);
  queue.Next(&tag, &ok);
  grpc::Status status;
  stream->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  return status.error_code();
}

// Every method of every service, found by reflection, so a new method without a check fails here.
TEST_F(StreamTest, NoRpcWithoutTheToken) {
  Serve();
  const auto channel = Dial(address_, client_credentials_);
  ASSERT_TRUE(channel.ok()) << channel.status();
  grpc::GenericStub stub(*channel);
  int methods = 0;
  uint32_t failures = 0;
  uint32_t explained = 0;
  const auto began = std::chrono::steady_clock::now();
  for (const char* file : {"paceline/v1/master.proto", "paceline/v1/control.proto"}) {
    const auto* descriptor =
        google::protobuf::DescriptorPool::generated_pool()->FindFileByName(file);
    ASSERT_NE(descriptor, nullptr);
    for (int s = 0; s < descriptor->service_count(); ++s) {
      for (int m = 0; m < descriptor->service(s)->method_count(); ++m, ++methods) {
        const std::string name = "/" + descriptor->service(s)->full_name() + "/" +
                                 descriptor->service(s)->method(m)->name();
        for (const std::string& wrong :
             {std::string(), std::string("Bearer "), "Bearer " + MakeToken(), token_,
              "Bearer " + token_ + "0"}) {
          // After the first failures the address gets the message that it fails too often.
          const grpc::StatusCode code = OutcomeOf(&stub, name, wrong);
          if (code == grpc::StatusCode::UNAUTHENTICATED) {
            ++explained;
          } else {
            EXPECT_EQ(code, grpc::StatusCode::RESOURCE_EXHAUSTED) << name;
          }
          if (++failures == FailureLimit::kBurst) {
            EXPECT_EQ(explained, failures);
          }
        }
      }
    }
  }
  EXPECT_EQ(methods, 11);
  EXPECT_GT(failures, FailureLimit::kBurst);
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - began;
  const int64_t more = took.count() / FailureLimit::kRefill.nanoseconds();
  EXPECT_LE(explained, FailureLimit::kBurst + more) << "one more for each time of waiting";
  Heard<AgentStreamEvent> agent_heard;
  const auto agent = Agent(&agent_heard);
  EXPECT_TRUE(agent_heard.Next<StreamOpened>())
      << "the right token gets in from there all the same";
}

TEST_F(StreamTest, OneAddressHasSoManyStreams) {
  streams_per_peer_max_ = 2;
  Serve();
  Heard<AgentStreamEvent> first;
  auto agent = Agent(&first);
  Heard<AgentStreamEvent> second;
  const auto other = Agent(&second);
  ASSERT_TRUE(first.Next<StreamOpened>());
  ASSERT_TRUE(second.Next<StreamOpened>());
  Heard<AgentStreamEvent> third;
  const auto late = Agent(&third);
  const auto broken = third.Next<StreamBroken>();
  ASSERT_TRUE(broken);
  EXPECT_FALSE(broken->is_denied) << "it may come again";
  agent.reset();
  EXPECT_TRUE(RegisterUntilHeard(late.get(), &third));
}

TEST_F(StreamTest, OfConnectionsWithoutATokenTheOldestGoes) {
  unproven_per_peer_max_ = 3;
  Serve();
  Heard<AgentStreamEvent> agent_heard;
  const auto agent = Agent(&agent_heard);
  ASSERT_TRUE(agent_heard.Next<StreamOpened>());
  std::deque<MuteConnection> strangers;
  for (int i = 0; i < 3; ++i) strangers.emplace_back(address_);
  for (int i = 0; i < 5; ++i) {
    strangers.emplace_back(address_);
    EXPECT_TRUE(strangers.front().IsClosedWithin(kDeadline));
    strangers.pop_front();
    for (const MuteConnection& stranger : strangers) {
      EXPECT_FALSE(stranger.IsClosedBeforeItsTime());
    }
  }
  // Connections with a proven token are not among them, and a new one with the token is accepted.
  ASSERT_TRUE(agent->Send(Register{TestReport("node0")}));
  EXPECT_TRUE(heard_.Next<AgentSaid>());
  Heard<AgentStreamEvent> late_heard;
  const auto late = Agent(&late_heard);
  EXPECT_TRUE(late_heard.Next<StreamOpened>());
}

TEST_F(StreamTest, ATokenIsShownOverIpv6Too) {
  unproven_per_peer_max_ = 1;
  auto server = MasterServer::Start(
      {.listen = "[::1]:0", .credentials = server_credentials_, .unproven_per_peer_max = 1},
      [this](ServerEvent event) { return heard_.Post(event); });
  if (!server.ok()) GTEST_SKIP() << "no IPv6 here: NOT RUN";
  server_ = *std::move(server);
  address_ = "[::1]:" + std::to_string(server_->port());
  Heard<AgentStreamEvent> agent_heard;
  const auto agent = Agent(&agent_heard);
  ASSERT_TRUE(agent_heard.Next<StreamOpened>());
  const MuteConnection first(address_);
  const MuteConnection second(address_);
  EXPECT_TRUE(first.IsClosedWithin(kDeadline));
  ASSERT_TRUE(agent->Send(Register{TestReport("node0")}));
  EXPECT_TRUE(heard_.Next<AgentSaid>()) << "the agent's is no connection without a token";
}

TEST_F(StreamTest, StatusAndStopAreAnswered) {
  Serve();
  ControlClient client(
      {.address = address_, .credentials = client_credentials_, .timeout = kAnswerPatience});
  std::thread host([&] {
    heard_.Next<StatusAsked>()->reply(JobStatus{.job_id = "j", .pending = "waits"});
    const auto stop = heard_.Next<StopAsked>();
    stop->reply(stop->request.force ? absl::OkStatus() : absl::InternalError("not forced"));
  });
  const auto status = client.GetStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->pending, "waits");
  EXPECT_TRUE(client.Stop({.why = "test", .exit_code = 130, .force = true}).ok());
  host.join();
}

TEST_F(StreamTest, AQuestionAboutRingsIsAnswered) {
  Serve();
  std::thread host([this] {
    const auto asked = heard_.Next<RingsAsked>();
    if (!asked) return;
    RingsReply reply{.content = asked->request.node + std::string("\0\xff", 2)};
    reply.now.monotonic_ns = static_cast<int64_t>(asked->request.at.rank);
    asked->reply(reply);
  });
  ControlClient client(
      {.address = address_, .credentials = client_credentials_, .timeout = kAnswerPatience});
  const auto reply = client.ReadRings({.node = "node1", .at = {.rank = 3}});
  host.join();
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->content, std::string("node1\0\xff", 7));
  EXPECT_EQ(reply->now.monotonic_ns, 3);
  EXPECT_EQ(reply->silence, "");
}

TEST_F(StreamTest, AnUnansweredCallDoesNotKeepTheServer) {
  Serve();
  ControlClient client(
      {.address = address_, .credentials = client_credentials_, .timeout = kAnswerPatience});
  std::thread host([&] {
    heard_.Next<StatusAsked>();  // dropped without an answer
  });
  EXPECT_EQ(client.GetStatus().status().code(), absl::StatusCode::kUnavailable);
  host.join();
}

TEST_F(StreamTest, WatchersGetPagesInOrder) {
  Serve();
  ControlClient client(
      {.address = address_, .credentials = client_credentials_, .timeout = kAnswerPatience});
  AwaitMaster(&client);
  constexpr uint64_t kEvents = 1000;
  std::thread host([&] {
    for (uint64_t seq = 1; seq <= kEvents;) {
      const auto wanted = heard_.Next<EventsWanted>();
      ASSERT_TRUE(wanted);
      ASSERT_EQ(wanted->from_seq, seq);
      std::vector<JobEvent> page;
      for (; page.size() < wanted->count_max && seq <= kEvents; ++seq) {
        page.push_back({.seq = seq, .kind = "wait_began", .sentence = std::string(2000, 's')});
      }
      server_->SendEvents(wanted->watch, page, seq > kEvents);
    }
  });
  uint64_t last = 0;
  const absl::Status status = client.WatchEvents(1, true, [&](const JobEvent& event) {
    EXPECT_EQ(event.seq, last + 1);
    last = event.seq;
    return true;
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(last, kEvents);
  host.join();
  EXPECT_TRUE(heard_.Next<WatchEnded>());
}

TEST_F(StreamTest, AWatchCanBeCancelled) {
  Serve();
  ControlClient client(
      {.address = address_, .credentials = client_credentials_, .timeout = kAnswerPatience});
  AwaitMaster(&client);
  std::thread host([&] {
    heard_.Next<EventsWanted>();
    client.Cancel();
  });
  EXPECT_EQ(client.WatchEvents(1, true, [](const JobEvent&) { return true; }).code(),
            absl::StatusCode::kCancelled);
  host.join();
  EXPECT_TRUE(heard_.Next<WatchEnded>());
}

TEST_F(StreamTest, TheLauncherReportsAndIsOrdered) {
  Serve();
  Heard<SupervisorEvent> launcher_heard;
  SupervisorStream launcher({.address = address_, .credentials = client_credentials_},
                            [&](SupervisorEvent event) { launcher_heard.Post(std::move(event)); });
  ASSERT_TRUE(launcher_heard.Next<SupervisorOpened>());
  const NodeGoneReport gone{.name = "node1", .evidence = "pid 7 is dead", .agent_pid = 7};
  ASSERT_TRUE(launcher.Send(gone));
  const auto said = heard_.Next<SupervisorSaid>();
  ASSERT_TRUE(said);
  EXPECT_EQ(std::get<NodeGoneReport>(said->message), gone);
  const NodePending pending{.name = "node2", .incarnation = 3, .reason = "no node is free"};
  ASSERT_TRUE(launcher.Send(pending));
  EXPECT_EQ(std::get<NodePending>(heard_.Next<SupervisorSaid>()->message), pending);
  for (const std::string name : {"node2", ""}) {  // "": the whole job
    const Notice notice{
        .name = name, .incarnation = 3, .left = Duration::Seconds(30), .why = "SIGTERM"};
    launcher.Send(notice);
    EXPECT_EQ(std::get<Notice>(heard_.Next<SupervisorSaid>()->message), notice);
  }
  const SizeWanted wanted{.nodes = 4, .why = "spec.nodes.target is 4"};
  launcher.Send(wanted);
  EXPECT_EQ(std::get<SizeWanted>(heard_.Next<SupervisorSaid>()->message), wanted);
  const Wish wish{.seq = 9,
                  .intent = Wish::Intent::kDrain,
                  .size = 3,
                  .spares = 1,
                  .incarnations = {{2, 4}},
                  .absent = {1},
                  .excluded = {"host3", "host4"}};
  server_->Order(said->supervisor, wish);
  EXPECT_EQ(launcher_heard.Next<Wish>(), wish);
  Summary summary{.phase = "running", .nodes = 3, .step = 7, .goodput = 0.5, .last = "lost"};
  server_->Order(said->supervisor, summary);
  EXPECT_EQ(launcher_heard.Next<Summary>(), summary);
  summary.size = 0;  // not the same as none
  summary.size_is_measured = true;
  summary.size_refused = 9;
  summary.refusal = "the job has ended";
  summary.measures = {{"rank_seconds", "productive", 1.5}, {"step", "", -1}};
  server_->Order(said->supervisor, summary);
  EXPECT_EQ(launcher_heard.Next<Summary>(), summary);
  server_->Order(said->supervisor, JobEnded{3, "done"});
  EXPECT_EQ(launcher_heard.Next<JobEnded>()->exit_code, 3);
  EXPECT_TRUE(heard_.Next<SupervisorDetached>());
}

TEST_F(StreamTest, ALauncherWhomAFullMasterDoesNotHearComesBack) {
  std::atomic<bool> is_full = true;
  auto server = MasterServer::Start(
      {.listen = "127.0.0.1:0", .credentials = server_credentials_}, [&](ServerEvent event) {
        if (std::holds_alternative<SupervisorAttached>(event) && is_full.exchange(false)) {
          return false;
        }
        return heard_.Post(std::move(event));
      });
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  const std::string address = "127.0.0.1:" + std::to_string(server_->port());
  Heard<SupervisorEvent> launcher_heard;
  SupervisorStream launcher({.address = address, .credentials = client_credentials_},
                            [&](SupervisorEvent event) { launcher_heard.Post(std::move(event)); });
  EXPECT_TRUE(heard_.Next<SupervisorAttached>());
  server_.reset();
}

TEST_F(StreamTest, ATakenPortIsAnError) {
  Serve();
  const auto second = MasterServer::Start({.listen = address_, .credentials = server_credentials_},
                                          [](ServerEvent) { return true; });
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(StreamTest, AWrongTokenIsDenied) {
  Serve();
  Heard<AgentStreamEvent> agent_heard;
  const auto agent = Agent(&agent_heard, Credentials{.token = MakeToken()});
  // An attempt that takes too long to connect breaks, too, and another one follows.
  bool is_denied = false;
  for (uint32_t i = 0; i < FailureLimit::kBurst && !is_denied; ++i) {
    const auto broken = agent_heard.Next<StreamBroken>();
    ASSERT_TRUE(broken);
    is_denied = broken->is_denied;
  }
  EXPECT_TRUE(is_denied);
}

}  // namespace
}  // namespace paceline::wire
