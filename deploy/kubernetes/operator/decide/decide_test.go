package decide

import (
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

func TestAPodThatWasJustMadeHidesTheOneBefore(t *testing.T) {
	s := running()
	s.Nodes = append(s.Nodes[:1], s.Nodes[2])
	s.Job.Status.Seen.Incarnations = map[string]int32{"1": 1}
	s.Memory.Gone = map[string]string{"train-node1-1": "lost its pod"}
	s.Memory.Made = map[string]time.Time{"train-node1-2": s.Now}
	plan := Decide(s)
	wantNoChange(t, plan)
	for _, fact := range plan.Facts {
		if fact.Index == 1 {
			t.Errorf("facts: %+v", plan.Facts)
		}
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
