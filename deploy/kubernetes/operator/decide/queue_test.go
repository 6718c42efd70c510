package decide

import (
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"paceline.dev/operator/api/v1alpha1"
)

// queued is a running job whose master and two nodes were admitted as one group; node2 was not.
func queued() Snapshot {
	s := running()
	s.Job.Queued, s.Job.NodesMin, s.Job.Status.StartTerm = true, 2, 1
	s.Job.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionRunning, Status: metav1.ConditionTrue, Reason: "Running"}}
	s.Masters[0].Group, s.Nodes[0].Group, s.Nodes[1].Group = true, true, true
	return s
}

// Kueue counts the room of a group, and keeps its pods, until it hears that no pod of it follows.
func TestAGroupIsClosedOnceNoPodOfItFollows(t *testing.T) {
	group := []string{"train-master-1", "train-node0-0", "train-node1-0"}
	for _, test := range []struct {
		name string
		end  func(*Snapshot)
		want []string
	}{
		{"it runs", func(*Snapshot) {}, nil},
		{"suspended", func(s *Snapshot) { s.Job.Suspend = true }, group},
		{"deleted", func(s *Snapshot) { s.Job.Deleting = true }, group},
		{"failed", func(s *Snapshot) {
			s.Job.Status.Conditions = []metav1.Condition{
				{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue}}
		}, group},
		{"failed, and told before", func(s *Snapshot) {
			s.Job.Status.Conditions = []metav1.Condition{
				{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue}}
			s.Masters[0].Group, s.Nodes[0].Group, s.Nodes[1].Group = false, false, false
		}, nil},
	} {
		s := queued()
		test.end(&s)
		if plan := Decide(s); !reflect.DeepEqual(plan.Closes, test.want) {
			t.Errorf("%s: %v", test.name, plan.Closes)
		}
	}
}

// Kueue deletes a pod that is one too many for its role, so the next pod waits for the one before.
func TestANodeOfAGroupIsReplacedWhenItsPodHasEnded(t *testing.T) {
	s := queued()
	s.Stream.Wish.Incarnations = map[uint32]uint32{1: 1, 2: 1}
	s.Nodes[1].Terminating, s.Nodes[2].Terminating = true, true
	plan := Decide(s)
	wantCreates(t, plan, NodeID{2, 1}) // it is in no group
	if len(plan.Alone) > 0 || plan.Next.IsZero() {
		t.Errorf("got %+v", plan)
	}
	s.Nodes[1].Phase = Ended
	plan = Decide(s)
	wantCreates(t, plan, NodeID{1, 1}, NodeID{2, 1})
	if len(plan.Alone) > 0 {
		t.Errorf("alone: %v", plan.Alone)
	}
}

// Without a queue, or outside of its group, a pod that does not end delays nothing.
func TestANodeOfALostHostIsReplacedOutsideOfItsGroup(t *testing.T) {
	s := queued()
	s.Stream.Wish.Incarnations = map[uint32]uint32{1: 1}
	s.Nodes[1].Terminating, s.Nodes[1].Overdue = true, true
	plan := Decide(s)
	wantCreates(t, plan, NodeID{1, 1})
	if !reflect.DeepEqual(plan.Alone, []NodeID{{1, 1}}) {
		t.Errorf("alone: %v", plan.Alone)
	}
}

func TestAMasterOfALostHostIsReplacedOutsideOfItsGroup(t *testing.T) {
	s := queued()
	s.Job.Status.MasterTerm, s.Memory.TermRaised, s.Memory.ServiceTerm = 2, 2, 2
	s.Masters[0].Terminating, s.Masters[0].HostLost = true, true
	if plan := Decide(s); !plan.CreateMaster || !plan.MasterAlone {
		t.Errorf("got %+v", plan)
	}
	s.Masters[0].Phase = Ended
	if plan := Decide(s); !plan.CreateMaster || plan.MasterAlone {
		t.Errorf("its place is free: %+v", plan)
	}
}

// A preemption ends all pods of the group. The next master is admitted with nodes only, so it cannot
// be the one that wishes for them.
func TestAnEvictedJobIsMadeWholeAgain(t *testing.T) {
	s := queued()
	s.Job.Status.MasterTerm, s.Stream = 2, Stream{}
	s.Masters = append(s.Masters, MasterPod{Pod: pod("train-master-2", Waiting), Term: 2})
	s.Masters[0].Phase, s.Masters[0].Terminating = Ended, true
	s.Masters[1].Created, s.Masters[1].Group = start.Add(30*time.Second), true
	for i := range s.Nodes {
		s.Nodes[i].Terminating = true
	}
	wantCreates(t, Decide(s)) // they still save
	for i := range s.Nodes {
		s.Nodes[i].Phase = Ended
	}
	plan := Decide(s)
	wantCreates(t, plan, NodeID{0, 1}, NodeID{1, 1})
	if plan.Status == nil || plan.Status.State != "Waiting" || plan.Status.Nodes != "0/2" ||
		meta.IsStatusConditionTrue(plan.Status.Conditions, v1alpha1.ConditionRunning) {
		t.Errorf("got %+v", plan.Status)
	}
	s.Job.Queued = false
	wantCreates(t, Decide(s))
}
