package master

import (
	"fmt"
	"time"

	"paceline.dev/operator/decide"
	"paceline.dev/operator/internal/pb"
)

// nodesMax bounds what a wish may ask for, so that a broken message cannot make pods without end.
const nodesMax = 200_000

// excludedMax bounds the list in the status.
const excludedMax = 64

func excludedOf(hosts []string) []string { return hosts[:min(len(hosts), excludedMax)] }

// wishOf returns nil for an invalid wish: its intent is unknown, or it has no nodes or too many.
// For nil the operator changes nothing. For an empty wish it would delete every node.
func wishOf(message *pb.Wish) *decide.Wish {
	size, spares := uint64(message.GetSize()), uint64(message.GetSpares())
	isDrain := message.GetIntent() == pb.Wish_DRAIN
	if !isDrain && (message.GetIntent() != pb.Wish_RUN || size == 0) || size+spares > nodesMax {
		return nil
	}
	wish := &decide.Wish{
		Seq: message.GetSeq(), Drain: isDrain, Size: message.GetSize(), Spares: message.GetSpares(),
		Incarnations: message.GetIncarnations(), Absent: map[uint32]bool{},
		Excluded: excludedOf(message.GetExcluded()),
	}
	for _, index := range message.GetAbsent() {
		wish.Absent[index] = true
	}
	return wish
}

// measuresMax bounds the series of one job. A master of this release tells about 60.
const measuresMax = 500

func summaryOf(message *pb.Summary) *decide.Summary {
	summary := &decide.Summary{
		Phase: message.GetPhase(), Pending: message.GetPending(), Nodes: message.GetNodes(),
		Spares: message.GetSpares(), Step: message.GetStep(), Goodput: message.GetGoodput(),
		Last: message.GetLast(), Memo: message.GetMemo(),
		TakesSize: message.Size != nil, Size: message.GetSize(),
		SizeIsMeasured: message.GetSizeIsMeasured(), SizeRefused: message.GetSizeRefused(),
		Refusal: message.GetRefusal(),
	}
	told := message.GetMeasures()
	for _, one := range told[:min(len(told), measuresMax)] {
		summary.Measures = append(summary.Measures,
			decide.Measure{Name: one.GetName(), Of: one.GetOf(), Value: one.GetValue()})
	}
	return summary
}

func sizeWanted(nodes uint32) *pb.SupervisorMessage {
	return &pb.SupervisorMessage{Body: &pb.SupervisorMessage_SizeWanted{SizeWanted: &pb.SizeWanted{
		Nodes: nodes, Why: fmt.Sprintf("spec.nodes.target of the ElasticJob is %d", nodes),
	}}}
}

// historyMax is the most that is kept of a job that has ended: 16 KiB as base64.
const historyMax = 12 * 1024

// endOf keeps no history that is too long, because the API server would refuse all of the status.
func endOf(message *pb.JobEnded) *decide.End {
	end := &decide.End{ExitCode: message.GetExitCode(), Reason: message.GetReason()}
	if history := message.GetHistory(); len(history) > 0 && len(history) <= historyMax {
		end.History = history
	}
	return end
}

func endKept() *pb.SupervisorMessage {
	return &pb.SupervisorMessage{Body: &pb.SupervisorMessage_EndKept{EndKept: &pb.EndKept{}}}
}

func noticeOf(why string, left time.Duration) *pb.SupervisorMessage {
	return &pb.SupervisorMessage{Body: &pb.SupervisorMessage_Notice{Notice: &pb.Notice{
		Left: max(left, 0).Nanoseconds(), Why: why,
	}}}
}

func nodeNoticeOf(id decide.NodeID, why string, left time.Duration) *pb.SupervisorMessage {
	return &pb.SupervisorMessage{Body: &pb.SupervisorMessage_Notice{Notice: &pb.Notice{
		Name: decide.NodeName(id.Index), Incarnation: &id.Incarnation,
		Left: max(left, 0).Nanoseconds(), Why: why,
	}}}
}

func messageOf(fact decide.Fact) *pb.SupervisorMessage {
	name := decide.NodeName(fact.Index)
	if fact.Gone {
		incarnation := fact.Incarnation
		return &pb.SupervisorMessage{Body: &pb.SupervisorMessage_NodeGone{NodeGone: &pb.NodeGoneReport{
			Name: name, Evidence: fact.Text, Incarnation: &incarnation,
		}}}
	}
	return &pb.SupervisorMessage{Body: &pb.SupervisorMessage_NodePending{NodePending: &pb.NodePending{
		Name: name, Incarnation: fact.Incarnation, Reason: fact.Text,
	}}}
}
