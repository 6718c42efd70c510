package k8stest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"paceline.dev/operator/api/v1alpha1"
)

const (
	systemNamespace = "paceline-system"
	operatorName    = "paceline-operator"
)

// one is an operator of several, with its readiness probe and its log.
type one struct {
	process *exec.Cmd
	health  string
	name    string
}

func (s *scene) spawnOne(name string, flags ...string) one {
	o := one{name: name + "-" + s.namespace, health: fmt.Sprintf("127.0.0.1:%d", freePort())}
	o.process = s.spawnNamed(o.name, o.health, flags...)
	return o
}

// awaitReady waits for the probe; the words are a part of the answer that it gives when it fails.
func (s *scene) awaitReady(o one, isReady bool, words string) {
	s.Helper()
	s.await(fmt.Sprintf("ready=%v of %s", isReady, o.name), func() string {
		answer, err := http.Get("http://" + o.health + "/readyz")
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		if (answer.StatusCode == http.StatusOK) != isReady || !strings.Contains(string(body), words) {
			return fmt.Sprint(answer.Status, string(body))
		}
		return ""
	})
}

// leadAndFollow starts two operators that share their work; the first one holds the Lease.
func (s *scene) leadAndFollow(between func()) (leader, follower one) {
	s.killOperator()
	s.Setenv("POD_NAMESPACE", systemNamespace)
	leader = s.spawnOne("leader", "--leader-elect")
	s.process = leader.process
	s.await("the Lease", func() string {
		var lease coordinationv1.Lease
		err := theCluster.admin.Get(s.ctx,
			client.ObjectKey{Namespace: systemNamespace, Name: operatorName}, &lease)
		if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			return fmt.Sprint("nobody holds it: ", err)
		}
		return ""
	})
	between()
	follower = s.spawnOne("follower", "--leader-elect")
	s.Cleanup(func() { s.end(follower) })
	return leader, follower
}

// end lets the operator give the Lease back.
func (s *scene) end(o one) {
	o.process.Process.Signal(syscall.SIGTERM)
	o.process.Wait()
}

func TestAnOperatorThatDoesNotHoldTheLeaseIsReadyAndTakesOver(t *testing.T) {
	s := setAlone(t)
	leader, follower := s.leadAndFollow(func() {
		s.submit(s.job(1, 2, 0))
		s.wish(1, 2, 0, nil)
		s.awaitNodes(nodeNames(2)...)
	})
	s.awaitReady(leader, true, "")
	s.awaitReady(follower, true, "")
	before := s.pods("node")
	s.end(leader)
	s.process = follower.process
	s.wish(2, 3, 0, nil)
	s.awaitNodes(nodeNames(3)...)
	s.goesOnWith(before)
	s.awaitReady(follower, true, "")
}

// A look that writes the condition makes an event, too. The condition itself may change and change
// back within one second of its times.
func TestAnOperatorThatDoesNotHoldTheLeaseWritesNoCondition(t *testing.T) {
	s := setAlone(t)
	defer s.mayOnly(allVerbs...)
	leader, follower := s.leadAndFollow(func() {
		s.submit(s.job(1, 2, 0))
		s.wish(1, 2, 0, nil)
		s.awaitNodes(nodeNames(2)...)
		s.awaitCondition(v1alpha1.ConditionMasterReady, true)
		s.mayOnly("get", "list", "watch", "create")
	})
	s.awaitReady(follower, false, "rights")
	s.mayOnly(allVerbs...)
	s.awaitReady(follower, true, "") // it has told what it had to tell
	var events corev1.EventList
	s.must(theCluster.admin.List(s.ctx, &events, client.InNamespace(s.namespace)))
	for _, event := range events.Items {
		if event.Reason == "RightsMissing" {
			t.Errorf("%s: %s", event.Reason, event.Message)
		}
	}
	s.awaitCondition(v1alpha1.ConditionMasterReady, true)
	s.end(leader)
}

// The API server says that the rights are there, and refuses lists and watches.
func TestAnOperatorThatCannotListIsNotReadyUntilItCan(t *testing.T) {
	for _, kind := range []string{"pods", "elasticjobs"} {
		t.Run(kind, func(t *testing.T) {
			s := set(t)
			s.killOperator()
			operator := s.spawnOne("operator")
			s.process = operator.process
			s.awaitReady(operator, true, "")
			s.proxy.setAnswer(func(w http.ResponseWriter, r *http.Request) bool {
				if verb := verbOf(r); verb != "LIST "+kind && verb != "WATCH "+kind {
					return false
				}
				answerStatus(w, http.StatusForbidden, "Forbidden")
				return true
			})
			s.proxy.server.CloseClientConnections()
			s.awaitReady(operator, false, "[-]lists failed")
			s.proxy.setAnswer(nil)
			s.awaitReady(operator, true, "")
		})
	}
}

// What install.yaml says of the operator itself, as the API server understands it.
func TestTheManifestKeepsOneOperatorReady(t *testing.T) {
	s := set(t)
	var deployment appsv1.Deployment
	file, err := os.Open(installYAML)
	s.must(err)
	defer file.Close()
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); deployment.Kind != "Deployment"; {
		deployment = appsv1.Deployment{}
		s.must(decoder.Decode(&deployment))
	}
	s.must(theCluster.admin.Create(s.ctx, &deployment))
	defer theCluster.admin.Delete(s.ctx, &deployment)
	if got := *deployment.Spec.Replicas; got != 2 {
		t.Errorf("%d replicas", got)
	}
	tolerated := map[string]int64{}
	for _, toleration := range deployment.Spec.Template.Spec.Tolerations {
		if toleration.Effect == corev1.TaintEffectNoExecute && toleration.TolerationSeconds != nil {
			tolerated[toleration.Key] = *toleration.TolerationSeconds
		}
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if tolerated[key] != 10 {
			t.Errorf("tolerations: %v", tolerated)
		}
	}
	var budget policyv1.PodDisruptionBudget
	s.must(theCluster.admin.Get(s.ctx,
		client.ObjectKey{Namespace: systemNamespace, Name: operatorName}, &budget))
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	s.must(err)
	if budget.Spec.MinAvailable.IntValue() != 1 ||
		!selector.Matches(labels.Set(deployment.Spec.Template.Labels)) {
		t.Errorf("budget: %+v", budget.Spec)
	}
}
