package decide

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"paceline.dev/operator/api/v1alpha1"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// running is a job of two nodes and a spare under its first master, a minute after the start.
func running() Snapshot {
	s := Snapshot{
		Now: start.Add(time.Minute),
		Job: Job{Name: "train", Generation: 1, NodesMax: 2, Spares: 1,
			Status: v1alpha1.ElasticJobStatus{MasterTerm: 1, Seen: v1alpha1.NodesSeen{Below: 3}}},
		Masters: []MasterPod{{Pod: pod("train-master-1", Running), Term: 1, Address: "10.0.0.1:29400"}},
		Stream: Stream{Term: 1, Connected: true, Heard: start.Add(59 * time.Second),
			Wish:    &Wish{Seq: 1, Size: 2, Spares: 1},
			Summary: &Summary{Phase: "running", Nodes: 2, Spares: 1, Step: 7, Goodput: 0.974}},
		Memory: Memory{Since: start, HasSecrets: true, ServiceTerm: 1},
	}
	for index := uint32(0); index < 3; index++ {
		s.Nodes = append(s.Nodes, node(index, 0, Running))
	}
	return s
}

func pod(name string, phase Phase) Pod {
	return Pod{Name: name, UID: "uid-" + name, Phase: phase, Created: start}
}

func node(index, incarnation uint32, phase Phase) NodePod {
	name := NodePodName("train", NodeID{index, incarnation})
	return NodePod{Pod: pod(name, phase), Index: index, Incarnation: incarnation}
}

func without(nodes []NodePod, index uint32) []NodePod {
	var rest []NodePod
	for _, n := range nodes {
		if n.Index != index {
			rest = append(rest, n)
		}
	}
	return rest
}

func condition(t *testing.T, plan Plan, kind string) metav1.Condition {
	t.Helper()
	if plan.Status == nil {
		t.Fatalf("no status is written, wanted %s", kind)
	}
	found := meta.FindStatusCondition(plan.Status.Conditions, kind)
	if found == nil {
		t.Fatalf("no condition %s in %+v", kind, plan.Status.Conditions)
	}
	return *found
}

// settled has the status that Decide would write, so that only changes from here on show.
func settled(s Snapshot) Snapshot {
	if plan := Decide(s); plan.Status != nil {
		s.Job.Status = *plan.Status
	}
	return s
}

func wantNoChange(t *testing.T, plan Plan) {
	t.Helper()
	if len(plan.Creates)+len(plan.Deletes) > 0 || plan.CreateMaster || plan.Raised != 0 ||
		plan.DeleteJob {
		t.Errorf("wanted no change of pods, got %+v", plan)
	}
}

func TestRaisesTheTermBeforeItMakesTheMaster(t *testing.T) {
	s := Snapshot{Now: start, Job: Job{Name: "train", NodesMax: 2}, Memory: Memory{Since: start}}
	plan := Decide(s)
	if plan.Raised != 1 || plan.Status.MasterTerm != 1 || plan.CreateMaster {
		t.Fatalf("wanted term 1 and no pod yet, got %+v", plan)
	}
	s.Job.Status, s.Memory.TermRaised = *plan.Status, 1
	if plan = Decide(s); !plan.EnsureSecrets || plan.CreateMaster {
		t.Fatalf("wanted the Secrets first, got %+v", plan)
	}
	s.Memory.HasSecrets = true
	if plan = Decide(s); !plan.CreateMaster || !plan.EnsureService {
		t.Fatalf("wanted the master and its Service, got %+v", plan)
	}
}

func TestMakesNoMasterOfATermThatAnotherOperatorRaised(t *testing.T) {
	s := running()
	s.Masters, s.Nodes, s.Stream = nil, nil, Stream{}
	plan := Decide(s)
	if plan.CreateMaster || len(plan.Confirm) != 1 {
		t.Fatalf("wanted a question about the pod, got %+v", plan)
	}
	s.Memory.Gone = map[string]string{"train-master-1": "was deleted"}
	if plan = Decide(s); plan.Raised != 2 {
		t.Fatalf("wanted term 2, got %+v", plan)
	}
}

func TestTheNextMasterIsToldWhoLives(t *testing.T) {
	s := running()
	s.Memory.TermRaised = 1
	s.Masters, s.Stream = nil, Stream{}
	s.Nodes = []NodePod{node(0, 2, Running), node(1, 0, Running), node(2, 0, Waiting), node(3, 0, Ended)}
	s.Nodes[1].Terminating = true
	plan := Decide(s)
	if !plan.CreateMaster || plan.Survivors != 1 {
		t.Errorf("wanted a master that waits for one node, got %+v", plan)
	}
}

func TestNeverMakesAMasterTwice(t *testing.T) {
	s := running()
	s.Memory.TermRaised = 1 // this operator raised the term, and made the pod
	s.Memory.Made = map[string]time.Time{"train-master-1": start}
	s.Masters, s.Stream = nil, Stream{}
	plan := Decide(s)
	if plan.CreateMaster || plan.Raised != 0 || len(plan.Confirm) != 1 {
		t.Errorf("wanted a question about the pod, got %+v", plan)
	}
}

func TestASecondLookChangesNothing(t *testing.T) {
	plan := Decide(settled(running()))
	wantNoChange(t, plan)
	if plan.Status != nil || len(plan.Confirm) > 0 || plan.EnsureService || plan.EnsureSecrets {
		t.Errorf("wanted no write, got %+v", plan)
	}
	if plan.Dial != "10.0.0.1:29400" || len(plan.Facts) != 3 {
		t.Errorf("wanted a stream and three facts, got %+v", plan)
	}
}

func TestColumns(t *testing.T) {
	status := settled(running()).Job.Status
	got := strings.Join([]string{status.Nodes, status.Spares, status.Step, status.Goodput,
		status.State}, " ")
	if got != "2/2 1/1 7 97.4% Running" {
		t.Errorf("columns: %s", got)
	}
}

func TestChangesNothingWithoutAWish(t *testing.T) {
	for name, change := range map[string]func(*Snapshot){
		"no wish yet":            func(s *Snapshot) { s.Stream.Wish = nil },
		"wish of another term":   func(s *Snapshot) { s.Stream.Term = 7 },
		"stream broken for 5 s":  func(s *Snapshot) { s.Stream.Connected = false; s.Stream.Heard = start },
		"no stream":              func(s *Snapshot) { s.Stream = Stream{} },
		"the list came up empty": func(s *Snapshot) { s.Nodes = nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := running()
			s.Nodes = append(s.Nodes, node(9, 0, Running), node(1, 1, Running))
			s.Nodes = s.Nodes[1:]
			change(&s)
			wantNoChange(t, Decide(s))
		})
	}
}

func TestReplacesANodeByAHigherIncarnation(t *testing.T) {
	s := running()
	s.Stream.Wish.Incarnations = map[uint32]uint32{1: 1}
	plan := Decide(s)
	if len(plan.Creates) != 1 || plan.Creates[0] != (NodeID{1, 1}) {
		t.Errorf("creates: %+v", plan.Creates)
	}
	if len(plan.Deletes) != 1 || plan.Deletes[0].Name != "train-node1-0" {
		t.Errorf("deletes: %+v", plan.Deletes)
	}
	s.Nodes[1].Terminating = true // it blocks nothing
	if plan = Decide(s); len(plan.Creates) != 1 || len(plan.Deletes) != 0 {
		t.Errorf("with the old pod Terminating: %+v", plan)
	}
	s.Nodes[1].Terminating, s.Nodes[1].Phase = false, Ended // its log stays
	if plan = Decide(s); len(plan.Creates) != 1 || len(plan.Deletes) != 0 {
		t.Errorf("with the old pod ended: %+v", plan)
	}
}

func TestDeletesNodesThatAreNotWishedFor(t *testing.T) {
	s := running()
	s.Stream.Wish = &Wish{Seq: 2, Size: 1, Spares: 1, Absent: map[uint32]bool{0: true}}
	plan := Decide(s)
	if len(plan.Deletes) != 2 || plan.Deletes[0].Name != "train-node0-0" ||
		plan.Deletes[1].Name != "train-node2-0" || len(plan.Creates) != 0 {
		t.Errorf("got %+v", plan)
	}
}

func TestADrainingMasterStartsNobody(t *testing.T) {
	s := running()
	s.Stream.Wish = &Wish{Seq: 2, Drain: true}
	wantNoChange(t, Decide(s))
	s.Stream.Wish = &Wish{Seq: 2, Drain: true, Size: 9}
	wantNoChange(t, Decide(s))
}

func TestTellsHowNodesAre(t *testing.T) {
	s := running()
	s.Nodes[0].Phase, s.Nodes[0].Reason = Ended, "exit code 137"
	s.Nodes[1].Phase, s.Nodes[1].Reason = Waiting, "Unschedulable: 0/3 nodes are available"
	s.Nodes[2].Terminating = true // it may still live
	plan := Decide(s)
	want := []Fact{{0, 0, true, "exit code 137"},
		{1, 0, false, "Unschedulable: 0/3 nodes are available"}, {2, 0, false, ""}}
	for i, fact := range plan.Facts {
		if fact != want[i] {
			t.Errorf("fact %d: %+v", i, fact)
		}
	}
	wantNoChange(t, plan)
	if plan.Status.PendingCount != 1 || plan.Status.Pending[0].Node != "node1" {
		t.Errorf("pending: %+v", plan.Status.Pending)
	}
}

func TestAMissingPodIsNotGoneUntilTheServerSaysSo(t *testing.T) {
	s := running()
	s.Nodes = without(s.Nodes, 1)
	plan := Decide(s)
	wantNoChange(t, plan)
	if len(plan.Confirm) != 1 || len(plan.Facts) != 2 {
		t.Fatalf("wanted a question and no fact of node1, got %+v", plan)
	}
	s.Memory.Gone = map[string]string{"train-node1-0": "the pod was deleted"}
	plan = Decide(s)
	wantNoChange(t, plan)
	if len(plan.Facts) != 3 || !plan.Facts[1].Gone {
		t.Errorf("facts: %+v", plan.Facts)
	}
}

func TestAPodThatWasJustMadeIsWaitedFor(t *testing.T) {
	s := running()
	s.Nodes, s.Job.Status.Seen = without(s.Nodes, 1), v1alpha1.NodesSeen{Below: 1}
	s.Memory.Made = map[string]time.Time{"train-node1-0": s.Now.Add(-time.Second)}
	plan := Decide(s)
	wantNoChange(t, plan)
	if len(plan.Confirm) != 0 || plan.Next != s.Now.Add(time.Second) {
		t.Errorf("got %+v", plan)
	}
}

func TestAMasterIsReplacedByTwoWitnessesOnly(t *testing.T) {
	silent := func(s *Snapshot) { s.Stream.Connected, s.Stream.Heard = false, start }
	for name, test := range map[string]struct {
		change func(*Snapshot)
		next   int64
	}{
		"all is well":           {func(*Snapshot) {}, 0},
		"silent, the pod runs":  {silent, 0},
		"gone, but it is heard": {func(s *Snapshot) { s.Masters = nil; s.gone() }, 0},
		"gone and silent":       {func(s *Snapshot) { s.Masters = nil; s.gone(); silent(s) }, 2},
		"missing and silent":    {func(s *Snapshot) { s.Masters = nil; silent(s) }, 0},
		"Terminating and silent": {func(s *Snapshot) {
			s.Masters[0].Terminating = true
			silent(s)
		}, 0},
		"Terminating, node away":  {func(s *Snapshot) { s.away(); silent(s) }, 2},
		"the same, but it speaks": {func(s *Snapshot) { s.away() }, 0},
		"evicted, stream broken": {func(s *Snapshot) {
			s.Masters[0].Phase, s.Masters[0].Disrupted = Ended, true
			s.Stream.Connected = false
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := running()
			test.change(&s)
			plan := Decide(s)
			if plan.Raised != test.next {
				t.Errorf("raised %d, wanted %d: %+v", plan.Raised, test.next, plan)
			}
			if len(plan.Creates)+len(plan.Deletes) > 0 || plan.CreateMaster {
				t.Errorf("wanted no change of pods, got %+v", plan)
			}
		})
	}
}

func (s *Snapshot) gone() { s.Memory.Gone = map[string]string{"train-master-1": "was deleted"} }
func (s *Snapshot) away() { s.Masters[0].Terminating, s.Masters[0].HostLost = true, true }

func TestAMasterThatDoesNotEndIsLookedAtAgain(t *testing.T) {
	s := running()
	s.Masters[0].Terminating = true
	if plan := Decide(s); plan.Next.After(s.Now.Add(TerminatingInterval)) || plan.Next.IsZero() {
		t.Errorf("next look: %v", plan.Next)
	}
}

func TestAnOldMasterIsDeleted(t *testing.T) {
	s := running()
	s.Masters = append(s.Masters, MasterPod{Pod: pod("train-master-0", Running), Term: 0})
	plan := Decide(s)
	if len(plan.Deletes) != 1 || plan.Deletes[0].Name != "train-master-0" {
		t.Errorf("deletes: %+v", plan.Deletes)
	}
}

func TestTheLastOrderEndsTheJobForGood(t *testing.T) {
	s := running()
	s.Stream.Ended = &End{ExitCode: 0, Reason: "All steps are done."}
	plan := Decide(s)
	wantNoChange(t, plan)
	if got := condition(t, plan, v1alpha1.ConditionComplete); got.Status != metav1.ConditionTrue ||
		got.Message != "All steps are done." {
		t.Errorf("condition: %+v", got)
	}
	ttl := time.Minute
	s.Job.Status, s.Job.TTL, s.Stream = *plan.Status, &ttl, Stream{}
	s.Nodes[0].Phase, s.Nodes[1].Phase, s.Masters = Ended, Waiting, nil
	plan = Decide(s)
	if len(plan.Deletes) != 1 || plan.Deletes[0].Name != "train-node1-0" || plan.Status != nil {
		t.Errorf("wanted that only the waiting pod goes, got %+v", plan)
	}
	s.Now = s.Now.Add(EndGrace)
	if plan = Decide(s); len(plan.Deletes) != 2 || plan.DeleteJob {
		t.Errorf("wanted that the running pod goes too, got %+v", plan)
	}
	s.Nodes, s.Now = nil, s.Now.Add(ttl)
	if plan = Decide(s); !plan.DeleteJob || len(plan.Creates) > 0 || plan.CreateMaster {
		t.Errorf("wanted that the job is deleted, got %+v", plan)
	}
}

func TestExitCodesOfTheMaster(t *testing.T) {
	for _, test := range []struct {
		code   int32
		final  *End
		state  string
		raised int64
	}{
		{0, nil, "Complete", 0},
		{1, nil, "Failed", 0},
		{137, nil, "", 2},
		{10, nil, "", 2},
		{137, &End{ExitCode: 3, Reason: "The budget is used up."}, "Failed", 0},
		{10, &End{ExitCode: 10}, "", 2},
		{143, &End{ExitCode: 143}, "Failed", 0}, // paceline stop
	} {
		s := running()
		s.Masters[0].Phase, s.Masters[0].ExitCode, s.Masters[0].Final = Ended, &test.code, test.final
		s.Masters[0].EndedAt = start.Add(2 * time.Minute)
		s.Stream.Connected = false
		plan := Decide(s)
		if plan.Raised != test.raised || test.state != "" && plan.Status.State != test.state {
			t.Errorf("exit code %d, %+v: %+v", test.code, test.final, plan.Status)
		}
	}
}

func TestAMasterWhosePodIsEndedFromOutsideDoesNotEndTheJob(t *testing.T) {
	s := running()
	s.Stream.Ended, s.Stream.Connected = &End{ExitCode: 143, Reason: "stopped by SIGTERM"}, false
	s.Stream.Heard = s.Now
	if plan := Decide(s); plan.Status != nil && plan.Status.ExitCode != nil {
		t.Errorf("the cache had no time to show the deletion: %+v", plan.Status)
	}
	for name, change := range map[string]func(*Snapshot){
		"Terminating": func(s *Snapshot) { s.Masters[0].Terminating = true },
		"evicted":     func(s *Snapshot) { s.Masters[0].Disrupted, s.Masters[0].Phase = true, Ended },
		"gone":        func(s *Snapshot) { s.Masters = nil; s.gone() },
	} {
		t.Run(name, func(t *testing.T) {
			s := s
			s.Masters = append([]MasterPod(nil), s.Masters...)
			s.Now = s.Now.Add(StreamSilentAfter)
			change(&s)
			plan := Decide(s)
			if plan.Status != nil && plan.Status.ExitCode != nil ||
				(plan.Raised == 2) != (name != "Terminating") {
				t.Errorf("got %+v", plan)
			}
		})
	}
	s.Now = s.Now.Add(CacheLagMax)
	if plan := Decide(s); plan.Status == nil || plan.Status.State != "Failed" {
		t.Errorf("a job that was stopped has ended: %+v", plan.Status)
	}
}

func TestAMasterThatCannotStartIsTriedLessOften(t *testing.T) {
	s := running()
	code := int32(128)
	s.Stream, s.Nodes = Stream{}, nil
	s.Masters[0].Phase, s.Masters[0].ExitCode = Ended, &code
	s.Masters[0].Reason = "exec: paceline: executable file not found in $PATH"
	s.Masters[0].EndedAt = start.Add(time.Second)
	s.Now = start.Add(2 * time.Second)
	for shorts, wanted := range map[int32]bool{0: true, 1: false, 3: false} {
		s.Job.Status.ShortMasters = shorts
		if plan := Decide(s); (plan.Raised == 2) != wanted {
			t.Errorf("after %d short masters: %+v", shorts, plan)
		}
	}
	s.Job.Status.ShortMasters = 2
	s.Now = s.Masters[0].EndedAt.Add(4 * time.Second)
	if plan := Decide(s); plan.Raised != 2 || plan.Status.ShortMasters != 3 {
		t.Errorf("wanted the next master after 4 s: %+v", plan)
	}
	s.Job.Status.ShortMasters = ShortMastersMax - 1
	if got := condition(t, Decide(s), v1alpha1.ConditionFailed); got.Reason != "MasterUnavailable" ||
		!strings.Contains(got.Message, "not found in $PATH") {
		t.Errorf("condition: %+v", got)
	}
}

func TestARefusalIsShownAndTriedWithOnePodOnly(t *testing.T) {
	s := running()
	s.Nodes, s.Job.Status.Seen = s.Nodes[:1], v1alpha1.NodesSeen{Below: 1}
	s.Memory.Refused = &Refusal{Words: "exceeded quota: gpus", Next: s.Now.Add(time.Second)}
	plan := Decide(s)
	wantNoChange(t, plan)
	if plan.Next != s.Now.Add(time.Second) || plan.Status.PendingCount != 2 ||
		plan.Facts[1].Text != "exceeded quota: gpus" {
		t.Errorf("got %+v", plan)
	}
	s.Now = s.Now.Add(time.Second)
	if plan = Decide(s); len(plan.Creates) != 1 || plan.Creates[0] != (NodeID{1, 0}) {
		t.Errorf("creates: %+v", plan.Creates)
	}
}

func TestASuspendedJobEndsItsNodesFirst(t *testing.T) {
	s := running()
	s.Job.Suspend = true
	plan := Decide(s)
	if len(plan.Deletes) != 3 || plan.Dial == "" || plan.Notice == "" {
		t.Fatalf("wanted the nodes' end and the stream kept, got %+v", plan)
	}
	for i := range s.Nodes {
		s.Nodes[i].Terminating = true
	}
	wantNoChange(t, Decide(s))
	s.Nodes = nil
	if plan = Decide(s); len(plan.Deletes) != 1 || plan.Deletes[0].Name != "train-master-1" {
		t.Fatalf("wanted the master's end, got %+v", plan)
	}
	s.Masters, s.Stream = nil, Stream{}
	plan = Decide(s)
	if condition(t, plan, v1alpha1.ConditionSuspended).Status != metav1.ConditionTrue {
		t.Fatalf("got %+v", plan.Status)
	}
	s.Job.Status = *plan.Status
	plan = Decide(s)
	wantNoChange(t, plan)
	s.Job.Suspend = false
	if plan = Decide(s); plan.Raised != 2 ||
		condition(t, plan, v1alpha1.ConditionSuspended).Status != metav1.ConditionFalse {
		t.Errorf("wanted the next master, got %+v", plan)
	}
}

func TestAResumedJobIsDescribedAnew(t *testing.T) {
	s := settled(running())
	s.Job.Suspend, s.Nodes, s.Masters, s.Stream = true, nil, nil, Stream{}
	s = settled(s)
	if s.Job.Status.State != "Suspended" {
		t.Fatalf("got %+v", s.Job.Status)
	}
	s.Job.Suspend = false
	s = settled(s)
	if status := s.Job.Status; status.State != "Starting" || status.Nodes != "0/2" ||
		status.MasterTerm != 2 {
		t.Fatalf("got %+v", status)
	}
	again := running()
	s.Nodes, s.Masters, s.Stream = again.Nodes, again.Masters, again.Stream
	s.Masters[0].Term, s.Stream.Term = 2, 2
	s.Stream.Summary.Step, s.Stream.Summary.Memo = 99, "memo"
	if status := settled(s).Job.Status; status.State != "Running" || status.Step != "99" ||
		status.Nodes != "2/2" || status.Memo != "memo" {
		t.Errorf("got %+v", status)
	}
}

func TestANewMasterThatForgotAnIncarnationIsTold(t *testing.T) {
	s := running()
	s.Nodes[1] = node(1, 3, Running) // it lives, under a higher incarnation than is wished for
	plan := Decide(s)
	wantNoChange(t, plan)
	if plan.Facts[1] != (Fact{1, 3, false, ""}) {
		t.Errorf("facts: %+v", plan.Facts)
	}
	s.Nodes[1].Phase, s.Nodes[1].Reason = Ended, "exit code 1"
	if plan = Decide(s); plan.Facts[1] != (Fact{1, 3, true, "exit code 1"}) {
		t.Errorf("facts: %+v", plan.Facts)
	}
}

func TestABadSpecFailsAtOnce(t *testing.T) {
	s := Snapshot{Now: start, Job: Job{Name: "train", Invalid: "There is no container train."}}
	plan := Decide(s)
	wantNoChange(t, plan)
	if got := condition(t, plan, v1alpha1.ConditionFailed); got.Reason != "InvalidSpec" {
		t.Errorf("condition: %+v", got)
	}
}

func TestADeletedJobIsLeftToTheCollector(t *testing.T) {
	s := running()
	s.Job.Deleting = true
	plan := Decide(s)
	wantNoChange(t, plan)
	if plan.Status != nil || plan.Dial == "" || plan.Notice != "the job was deleted" {
		t.Errorf("wanted a notice, got %+v", plan)
	}
	s.Masters, s.Nodes = nil, nil
	plan = Decide(s)
	wantNoChange(t, plan)
	if plan.Status != nil || plan.Dial != "" {
		t.Errorf("got %+v", plan)
	}
}

func TestAnOldCopyOfTheJobDecidesNothing(t *testing.T) {
	s := running()
	s.Masters[0].Term = 2
	plan := Decide(s)
	wantNoChange(t, plan)
	if plan.Status != nil {
		t.Errorf("got %+v", plan.Status)
	}
}

func TestStepsAreWrittenSeldom(t *testing.T) {
	s := settled(running())
	s.Memory.StatusWritten = s.Now
	s.Stream.Summary.Step = 8
	plan := Decide(s)
	if plan.Status != nil || plan.Next != s.Now.Add(StepInterval) {
		t.Errorf("wanted no write yet, got %+v", plan)
	}
	s.Stream.Summary.Nodes = 1 // Degraded is written at once
	if plan = Decide(s); condition(t, plan, v1alpha1.ConditionDegraded).Status !=
		metav1.ConditionTrue || plan.Status.State != "Degraded" {
		t.Errorf("got %+v", plan.Status)
	}
}

func TestAMemoIsKept(t *testing.T) {
	s := settled(running())
	s.Stream.Summary.Memo = `{"charged_failures":1}`
	plan := Decide(s)
	if plan.Status == nil || plan.Status.Memo != s.Stream.Summary.Memo {
		t.Fatalf("got %+v", plan.Status)
	}
	s.Job.Status = *plan.Status
	s.Stream.Summary.Memo = strings.Repeat("x", MemoMax+1)
	if plan = Decide(s); plan.Status != nil {
		t.Errorf("a memo that is too long was taken: %+v", plan.Status)
	}
	s.Stream = Stream{}
	if plan = Decide(s); plan.Status != nil && plan.Status.Memo == "" {
		t.Error("a master that is not heard has no memo to forget")
	}
}

func TestAStatusThatTheServerDropsIsNotWrittenForEver(t *testing.T) {
	s := settled(running())
	s.Stream.Summary.Memo = "memo"
	written := Decide(s).Status
	s.Memory.Dropped = written // the job still has the status without the memo
	if plan := Decide(s); plan.Status != nil {
		t.Errorf("got %+v", plan.Status)
	}
	s.Stream.Summary.Last = "node1 lost"
	if plan := Decide(s); plan.Status == nil {
		t.Error("a change is written")
	}
}

func TestSeenComesBackFromTheStatus(t *testing.T) {
	before := seen{0: 0, 1: 2, 2: 0, 5: 0, 7: 1}
	after := fromStatus(before.toStatus())
	if len(after) != len(before) {
		t.Fatalf("got %v", after)
	}
	for index, incarnation := range before {
		if after[index] != incarnation {
			t.Errorf("index %d: %d", index, after[index])
		}
	}
}

func TestExcludedHostsStayInTheStatusUntilTheNextMasterSpeaks(t *testing.T) {
	s := running()
	s.Stream.Wish.Excluded = []string{"host1"}
	plan := Decide(s)
	if plan.Status == nil || !slices.Equal(plan.Status.ExcludedHosts, []string{"host1"}) ||
		!slices.Equal(plan.Excluded, []string{"host1"}) {
		t.Fatalf("%+v", plan)
	}
	s.Job.Status = *plan.Status
	s.Job.Status.MasterTerm++
	s.Job.Status.State = "" // so that there is something to write
	if plan = Decide(s); plan.Status == nil ||
		!slices.Equal(plan.Status.ExcludedHosts, []string{"host1"}) {
		t.Errorf("%+v", plan.Status)
	}
}
