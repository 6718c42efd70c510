package decide

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"paceline.dev/operator/api/v1alpha1"
)

// starting is a job of at least three nodes whose first term this operator has raised.
func starting() Snapshot {
	return Snapshot{Now: start,
		Job: Job{Name: "train", NodesMin: 3, NodesMax: 5,
			Status: v1alpha1.ElasticJobStatus{MasterTerm: 1, StartTerm: 1}},
		Memory: Memory{Since: start, TermRaised: 1, HasSecrets: true, ServiceTerm: 1}}
}

func wantCreates(t *testing.T, plan Plan, wanted ...NodeID) {
	t.Helper()
	if len(plan.Creates)+len(wanted) > 0 && !reflect.DeepEqual(plan.Creates, wanted) {
		t.Errorf("creates: %+v, wanted %+v", plan.Creates, wanted)
	}
}

func TestTheMasterAndTheSmallestWorldAreMadeTogether(t *testing.T) {
	plan := Decide(starting())
	if !plan.CreateMaster {
		t.Error("no master")
	}
	wantCreates(t, plan, NodeID{0, 0}, NodeID{1, 0}, NodeID{2, 0})
}

// An operator that died after it had raised the term leaves a start without pods. The next master
// of that start gets its nodes, too.
func TestAMasterThatWasNeverMadeLeavesTheStartToTheNext(t *testing.T) {
	s := starting()
	s.Job.Status.MasterTerm, s.Memory.TermRaised = 2, 2
	wantCreates(t, Decide(s), NodeID{0, 0}, NodeID{1, 0}, NodeID{2, 0})
}

func TestANodeThatIsDeletedBeforeItsMasterRunsIsReplaced(t *testing.T) {
	s := starting()
	s.Masters = []MasterPod{{Pod: pod("train-master-1", Waiting), Term: 1}}
	s.Nodes = []NodePod{node(0, 0, Waiting), node(2, 0, Waiting)}
	s.Memory.Gone = map[string]string{"train-node1-0": "was deleted"}
	s.Job.Status.Seen = v1alpha1.NodesSeen{Below: 3}
	wantCreates(t, Decide(s), NodeID{1, 1})
	s.Memory.Gone = nil // another operator: it asks first
	plan := Decide(s)
	wantCreates(t, plan)
	if !reflect.DeepEqual(plan.Confirm, []string{"train-node1-0"}) {
		t.Errorf("confirms: %v", plan.Confirm)
	}
}

func TestANodeThatFailsBeforeItsMasterRunsIsNotRepeated(t *testing.T) {
	s := starting()
	s.Masters = []MasterPod{{Pod: pod("train-master-1", Waiting), Term: 1}}
	s.Nodes = []NodePod{node(0, 0, Ended), node(1, 0, Waiting), node(2, 0, Waiting)}
	wantCreates(t, Decide(s))
}

func TestAJobThatGoesOnAfterItWasSuspendedIsMadeWhole(t *testing.T) {
	s := starting()
	s.Job.Status.MasterTerm = 4
	s.Job.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue, Reason: reasonSuspended},
		{Type: v1alpha1.ConditionRunning, Status: metav1.ConditionFalse, Reason: reasonSuspended}}
	s.Job.Status.Seen = v1alpha1.NodesSeen{Below: 3, Incarnations: map[string]int32{"1": 2}}
	plan := Decide(s)
	if plan.Raised != 5 || plan.Status.StartTerm != 5 {
		t.Fatalf("got %+v", plan)
	}
	s.Job.Status, s.Memory.TermRaised, s.Memory.ServiceTerm = *plan.Status, 5, 5
	s.Memory.Gone = map[string]string{"train-node0-0": "was deleted", "train-node1-2": "was deleted"}
	s.Nodes = []NodePod{node(2, 0, Ended)} // its log stays
	s.Masters = []MasterPod{{Pod: pod("train-master-5", Waiting), Term: 5}}
	s.Masters[0].Created = start.Add(time.Second)
	wantCreates(t, Decide(s), NodeID{0, 1}, NodeID{1, 3}, NodeID{2, 1})
}

func TestOnlyAStartMakesNodesWithoutAWish(t *testing.T) {
	s := starting()
	s.Job.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionRunning, Status: metav1.ConditionFalse, Reason: "Waiting"}}
	wantCreates(t, Decide(s))
	s = starting()
	s.Stream = Stream{Term: 1, Connected: true, Heard: start, Wish: &Wish{Seq: 1, Size: 1}}
	wantCreates(t, Decide(s), NodeID{0, 0})
}
