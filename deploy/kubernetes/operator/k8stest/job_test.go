package k8stest

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"paceline.dev/operator/api/v1alpha1"
	"paceline.dev/operator/command"
	"paceline.dev/operator/internal/pb"
)

func TestAJobGetsExactlyWhatItsMasterWishesFor(t *testing.T) {
	s := set(t)
	s.submit(s.job(2, 3, 1))
	s.awaitNodes(nodeNames(2)...) // the smallest world comes with the master
	s.wish(1, 3, 1, nil)
	s.awaitNodes(nodeNames(4)...)
	node := s.pods(command.RoleNode)["train-node3-0"]
	line := strings.Join(node.Spec.Containers[0].Command, " ")
	if !strings.Contains(line, "--node-name node3 --incarnation 0") {
		t.Errorf("the command line: %s", line)
	}
	service := &corev1.Service{}
	s.must(theCluster.admin.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: "train-master"},
		service))
	if service.Spec.Selector[command.TermLabel] != "1" {
		t.Errorf("the Service's selector: %v", service.Spec.Selector)
	}
	for _, pod := range s.pods(command.RoleNode) {
		s.runs(pod, "10.0.0.9")
	}
	s.fake.Summary(&pb.Summary{Phase: "running", Nodes: 3, Spares: 1, Step: 18420, Goodput: 0.974,
		Last: "node3 lost, 0.9s"})
	s.awaitCondition(v1alpha1.ConditionRunning, true)
	status := s.now().Status
	if status.Nodes != "3/3" || status.Spares != "1/1" || status.Step != "18420" ||
		status.Goodput != "97.4%" || status.Last != "node3 lost, 0.9s" || status.State != "Running" {
		t.Errorf("status: %+v", status)
	}
	time.Sleep(2 * time.Second)
	before, lists := s.proxy.writes(), s.proxy.count("LIST pods")
	time.Sleep(3 * time.Second)
	if after := s.proxy.writes(); after != before {
		t.Errorf("%d writes although nothing changed: %v", after-before, s.proxy.counts)
	}
	if s.proxy.count("LIST pods") != lists {
		t.Error("pods were listed although nothing changed")
	}
}

func TestAHigherIncarnationReplacesAPod(t *testing.T) {
	s := set(t)
	s.submit(s.job(1, 2, 0))
	s.wish(1, 2, 0, nil)
	s.awaitNodes(nodeNames(2)...)
	other := s.pods(command.RoleNode)["train-node0-0"].UID
	s.wish(2, 2, 0, map[uint32]uint32{1: 1})
	s.awaitNodes("train-node0-0", "train-node1-1")
	if s.pods(command.RoleNode)["train-node0-0"].UID != other {
		t.Error("the other pod was touched")
	}
	// A pod that ended stays for its log.
	s.ends(s.pods(command.RoleNode)["train-node1-1"], 137, "")
	s.awaitTold("node1", true, "exit code 137")
	s.wish(3, 2, 0, map[uint32]uint32{1: 2})
	s.awaitNodes("train-node0-0", "train-node1-1", "train-node1-2")
	// A pod that somebody deleted is told of, and not made again.
	s.must(theCluster.admin.Delete(s.ctx, s.pods(command.RoleNode)["train-node0-0"],
		client.GracePeriodSeconds(0)))
	s.awaitTold("node0", true, "deleted")
	time.Sleep(time.Second)
	s.awaitNodes("train-node1-1", "train-node1-2")
}

func TestNewPodsAvoidExcludedHosts(t *testing.T) {
	s := set(t)
	s.submit(s.job(1, 2, 0))
	s.wish(1, 2, 0, nil)
	s.awaitNodes(nodeNames(2)...)
	s.fake.Wish(&pb.Wish{Seq: 2, Intent: pb.Wish_RUN, Size: 2,
		Incarnations: map[uint32]uint32{1: 1}, Excluded: []string{"host1"}})
	s.awaitNodes("train-node0-0", "train-node1-1")
	terms := s.pods(command.RoleNode)["train-node1-1"].Spec.Affinity.NodeAffinity.
		RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if got := terms[0].MatchExpressions[0]; got.Operator != "NotIn" || got.Values[0] != "host1" {
		t.Errorf("%+v", terms)
	}
	s.await("the list in the status", func() string {
		if got := s.now().Status.ExcludedHosts; len(got) != 1 || got[0] != "host1" {
			return fmt.Sprint(got)
		}
		return ""
	})
}

func TestAnOperatorThatDiesBetweenPodsLeavesExactlyEight(t *testing.T) {
	s := set(t)
	s.submit(s.job(1, 8, 0))
	var posts atomic.Int32
	blocked := make(chan struct{})
	s.proxy.setHook(func(r *http.Request) int {
		if verbOf(r) == "POST pods" && posts.Add(1) > 3 {
			<-blocked
			panic(http.ErrAbortHandler)
		}
		return 0
	})
	s.wish(1, 8, 0, nil)
	s.awaitNodesAtLeast(3)
	uids := s.pods(command.RoleNode)
	s.killOperator()
	close(blocked)
	s.proxy.setHook(nil)
	s.startOperator()
	s.awaitNodes(nodeNames(8)...)
	time.Sleep(2 * time.Second)
	s.awaitNodes(nodeNames(8)...)
	for name, pod := range s.pods(command.RoleNode) {
		if old := uids[name]; old != nil && old.UID != pod.UID {
			t.Errorf("%s was made twice", name)
		}
	}
	if got := s.now().Status.MasterTerm; got != 1 {
		t.Errorf("term %d", got)
	}
}

// Two operators work at once only while the Lease changes hands. Here they do so all the time.
func TestTwoOperatorsMakeEachPodOnce(t *testing.T) {
	s := set(t)
	other := s.spawnOperator()
	defer func() { other.Process.Kill(); other.Wait() }()
	s.submit(s.job(1, 8, 0))
	s.wish(1, 8, 0, nil)
	s.awaitNodes(nodeNames(8)...)
	uids := s.pods(command.RoleNode)
	for seq := uint64(2); seq < 12; seq++ {
		s.wish(seq, 8, 0, map[uint32]uint32{7: uint32(seq)})
		time.Sleep(100 * time.Millisecond)
	}
	s.awaitNodes(append(nodeNames(7), "train-node7-11")...)
	for name, pod := range s.pods(command.RoleNode) {
		if old := uids[name]; old != nil && old.UID != pod.UID {
			t.Errorf("%s was made twice", name)
		}
	}
	s.must(theCluster.admin.Delete(s.ctx, s.pods(command.RoleMaster)["train-master-1"],
		client.GracePeriodSeconds(0)))
	s.fake.Close()
	s.serve(2)
	time.Sleep(7 * time.Second)
	if got := s.now().Status.MasterTerm; got != 2 {
		t.Errorf("term %d: the operators replace each other's masters", got)
	}
	s.awaitNodes(append(nodeNames(7), "train-node7-11")...)
}

func (s *scene) awaitNodesAtLeast(count int) {
	s.await("some pods", func() string {
		if len(s.pods(command.RoleNode)) < count {
			return "too few"
		}
		return ""
	})
}

func TestTheLastOrderCompletesTheJobAndItsTimeToLiveDeletesIt(t *testing.T) {
	s := set(t)
	job := s.job(1, 2, 0)
	ttl := int32(4)
	job.Spec.TTLSecondsAfterFinished = &ttl
	s.submit(job)
	s.wish(1, 2, 0, nil)
	s.awaitNodes(nodeNames(2)...)
	s.ends(s.pods(command.RoleNode)["train-node0-0"], 0, "")
	s.fake.End(0, "All steps are done.")
	got := s.awaitCondition(v1alpha1.ConditionComplete, true)
	if got.Message != "All steps are done." || *s.now().Status.ExitCode != 0 {
		t.Errorf("condition: %+v", got)
	}
	s.awaitNodes("train-node0-0") // its log can be read; node1 had not started yet
	s.await("the end of all", func() string {
		if s.now().UID != "" {
			return "the job is there"
		}
		if len(s.pods(command.RoleNode))+len(s.pods(command.RoleMaster)) > 0 {
			return "pods are there"
		}
		return ""
	})
}

func TestADeletedJobLeavesNothing(t *testing.T) {
	s := set(t)
	s.submit(s.job(1, 2, 0))
	s.wish(1, 2, 0, nil)
	s.awaitNodes(nodeNames(2)...)
	s.must(theCluster.admin.Delete(s.ctx, s.now(), client.PropagationPolicy("Background")))
	s.await("the end of all", func() string {
		secrets, services := &corev1.SecretList{}, &corev1.ServiceList{}
		s.must(theCluster.admin.List(s.ctx, secrets, client.InNamespace(s.namespace)))
		s.must(theCluster.admin.List(s.ctx, services, client.InNamespace(s.namespace)))
		if len(s.pods(command.RoleNode))+len(s.pods(command.RoleMaster))+len(secrets.Items)+
			len(services.Items) > 0 {
			return "something is there"
		}
		return ""
	})
	if s.fake.Streams() != 0 {
		s.await("the end of the stream", func() string {
			if s.fake.Streams() == 0 {
				return ""
			}
			return "it stands"
		})
	}
}

func TestAQuotaIsToldInTheServersWords(t *testing.T) {
	s := set(t)
	quota := s.quota("few", "3")
	s.submit(s.job(1, 4, 0))
	s.wish(1, 4, 0, nil)
	s.awaitNodesAtLeast(2)
	s.awaitTold("", false, "exceeded quota: few")
	s.await("the pending nodes", func() string {
		status := s.now().Status
		if status.PendingCount < 2 {
			return "not yet"
		}
		for _, pending := range status.Pending {
			if strings.Contains(pending.Reason, "exceeded quota") {
				return ""
			}
		}
		return "no words"
	})
	time.Sleep(4 * time.Second)
	if posts := s.proxy.count("POST pods"); posts > 16 {
		t.Errorf("%d attempts: the pauses do not grow", posts)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"hard":{"pods":"9"}}}`))
	s.must(theCluster.admin.Patch(s.ctx, quota, patch))
	s.awaitNodes(nodeNames(4)...)
}

func TestAMasterIsReplacedByTwoWitnessesOnly(t *testing.T) {
	s := set(t)
	s.submit(s.job(1, 1, 0))
	s.wish(1, 1, 0, nil)
	s.awaitNodes("train-node0-0")
	old := s.fake
	old.Close() // the stream is silent, and the pod runs
	time.Sleep(7 * time.Second)
	if got := s.now().Status.MasterTerm; got != 1 {
		t.Fatalf("one witness was enough: term %d", got)
	}
	s.awaitNodes("train-node0-0")
	s.awaitCondition(v1alpha1.ConditionMasterReady, false)
	s.must(theCluster.admin.Delete(s.ctx, s.pods(command.RoleMaster)["train-master-1"],
		client.GracePeriodSeconds(0)))
	s.serve(2)
	service := &corev1.Service{}
	s.must(theCluster.admin.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: "train-master"},
		service))
	if service.Spec.Selector[command.TermLabel] != "2" {
		t.Errorf("the Service's selector: %v", service.Spec.Selector)
	}
	s.wish(1, 1, 0, nil)
	s.awaitCondition(v1alpha1.ConditionMasterReady, true)
	s.awaitNodes("train-node0-0")
	// A killed container: its kubelet says so, and the stream broke.
	s.fake.Close()
	begun := time.Now()
	s.ends(s.pods(command.RoleMaster)["train-master-2"], 137, "")
	s.serve(3)
	if took := time.Since(begun); took > 4*time.Second {
		t.Errorf("the next master took %v", took)
	}
}

func TestAWordOfTheMasterIsReadFromItsPod(t *testing.T) {
	s := set(t)
	s.submit(s.job(1, 1, 0))
	s.killOperator()
	s.fake.Close()
	s.ends(s.pods(command.RoleMaster)["train-master-1"], 1,
		`{"exit_code": 1, "reason": "ValueError at step 7."}`)
	s.startOperator()
	if got := s.awaitCondition(v1alpha1.ConditionFailed, true); got.Message != "ValueError at step 7." {
		t.Errorf("condition: %+v", got)
	}
}

func TestAnAPIServerThatIsAwayChangesNothing(t *testing.T) {
	s := set(t)
	s.submit(s.job(1, 3, 0))
	s.wish(1, 3, 0, nil)
	s.awaitNodes(nodeNames(3)...)
	before := s.pods(command.RoleNode)
	s.proxy.away(6 * time.Second)
	s.proxy.setHook(func(r *http.Request) int { // then a storm
		if time.Now().UnixMilli()%3 == 0 {
			return http.StatusTooManyRequests
		}
		return 0
	})
	time.Sleep(3 * time.Second)
	s.proxy.setHook(nil)
	s.wish(2, 4, 0, nil)
	s.awaitNodes(nodeNames(4)...)
	s.goesOnWith(before)
}

func TestASuspendedJobEndsAndGoesOn(t *testing.T) {
	s := set(t)
	s.submit(s.job(1, 2, 0))
	s.wish(1, 2, 0, nil)
	s.awaitNodes(nodeNames(2)...)
	s.suspend(true)
	s.awaitCondition(v1alpha1.ConditionSuspended, true)
	s.awaitNodes()
	s.fake.Close()
	s.suspend(false)
	s.serve(2)
	s.wish(1, 2, 0, nil)
	s.awaitTold("node1", true, "deleted") // the new master does not know, and is told
	s.wish(2, 2, 0, map[uint32]uint32{0: 1, 1: 1})
	s.awaitNodes("train-node0-1", "train-node1-1")
	s.fake.Summary(&pb.Summary{Phase: "running", Nodes: 2, Step: 99})
	s.await("the columns of the new master", func() string {
		if status := s.now().Status; status.Step != "99" || status.State != "Running" {
			return fmt.Sprintf("%+v", status)
		}
		return ""
	})
}

func (s *scene) suspend(is bool) {
	s.Helper()
	s.await("the change", func() string {
		job := s.now()
		job.Spec.Suspend = is
		if err := theCluster.admin.Update(s.ctx, job); err != nil {
			return err.Error()
		}
		return ""
	})
}

func TestAMasterThatHangsOnANodeThatIsAwayIsReplaced(t *testing.T) {
	s := set(t)
	s.must(theCluster.admin.Create(s.ctx, s.job(1, 1, 0)))
	host := &corev1.Node{}
	host.Name = "host-" + s.namespace
	s.must(theCluster.admin.Create(s.ctx, host))
	s.serve(1)
	s.wish(1, 1, 0, nil)
	s.awaitNodes("train-node0-0")
	pod := s.pods(command.RoleMaster)["train-master-1"]
	s.must(theCluster.admin.SubResource("binding").Create(s.ctx, pod,
		&corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: host.Name}}))
	s.isReady(host, corev1.ConditionTrue)
	s.must(theCluster.admin.Delete(s.ctx, pod)) // nobody ends it: its kubelet does not answer
	s.fake.Close()
	time.Sleep(7 * time.Second)
	if got := s.now().Status.MasterTerm; got != 1 {
		t.Fatalf("a pod that may still end was taken for gone: term %d", got)
	}
	s.isReady(host, corev1.ConditionUnknown)
	s.serve(2)
	if s.pods(command.RoleMaster)["train-master-1"] == nil {
		t.Error("the old pod is not there: this was another test")
	}
}

func (s *scene) isReady(host *corev1.Node, ready corev1.ConditionStatus) {
	s.Helper()
	host.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	s.must(theCluster.admin.Status().Update(s.ctx, host))
}
