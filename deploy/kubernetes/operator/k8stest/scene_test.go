package k8stest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"paceline.dev/operator/api/v1alpha1"
	"paceline.dev/operator/command"
	"paceline.dev/operator/decide"
	"paceline.dev/operator/internal/fakemaster"
	"paceline.dev/operator/internal/pb"
	"paceline.dev/operator/pki"
)

const patience = 30 * time.Second

var hosts atomic.Int32 // each master has a loopback address of its own

// scene is a namespace with one operator that looks after it.
type scene struct {
	*testing.T
	ctx       context.Context
	namespace string
	proxy     *proxy
	process   *exec.Cmd
	fake      *fakemaster.Master
}

func set(t *testing.T) *scene {
	t.Parallel()
	return setAlone(t)
}

// setAlone is for a test that changes what all scenes share. It runs before the parallel ones.
func setAlone(t *testing.T) *scene { return setWith(t, false) }

func setWith(t *testing.T, hasHTTP2 bool) *scene {
	s := &scene{T: t, ctx: context.Background()}
	namespace := &corev1.Namespace{}
	namespace.GenerateName = "test-"
	s.must(theCluster.admin.Create(s.ctx, namespace))
	s.namespace = namespace.Name
	var err error
	s.proxy, err = newProxy(theCluster.url, hasHTTP2)
	s.must(err)
	s.startOperator()
	t.Cleanup(func() {
		s.killOperator()
		if s.fake != nil {
			s.fake.Close()
		}
		s.proxy.server.CloseClientConnections()
		s.proxy.server.Close()
	})
	return s
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) startOperator() { s.process = s.spawnOperator() }

func (s *scene) spawnOperator() *exec.Cmd { return s.spawnNamed("operator-"+s.namespace, "0") }

// spawnNamed starts an operator with a log and an address of its probes.
func (s *scene) spawnNamed(name, health string, flags ...string) *exec.Cmd {
	config := theCluster.path(s.namespace + ".conf")
	s.must(writeKubeconfig(config, s.proxy.url, operatorToken))
	process, err := theCluster.spawn(name, theCluster.operator, append([]string{"--kubeconfig",
		config, "--namespace", s.namespace, "--metrics-address", "0", "--health-address", health},
		flags...)...)
	s.must(err)
	return process
}

func (s *scene) killOperator() {
	s.process.Process.Kill()
	s.process.Wait()
}

func (s *scene) job(min, max, spares int32) *v1alpha1.ElasticJob {
	job := &v1alpha1.ElasticJob{}
	job.Name, job.Namespace = "train", s.namespace
	job.Spec = v1alpha1.ElasticJobSpec{
		Nodes: v1alpha1.NodeRange{Min: min, Max: max}, Spares: spares,
		Script: v1alpha1.Script{File: "train.py"},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "train", Image: "me/train:7"}}}},
	}
	return job
}

// await asks again until there is no problem.
func (s *scene) await(what string, problem func() string) {
	s.Helper()
	last := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if last = problem(); last == "" {
			return
		}
		time.Sleep(30 * time.Millisecond)
	}
	job := s.now()
	if os.Getenv("STACKS") != "" {
		s.process.Process.Signal(syscall.SIGQUIT) // the operator's log has all goroutines
		time.Sleep(time.Second)
	}
	if log, err := os.ReadFile(theCluster.path("operator-" + s.namespace + ".log")); err == nil {
		s.Logf("the operator's log ends:\n%s", log[max(0, len(log)-2000):])
	}
	s.Logf("requests: %v", s.proxy.counts)
	s.Fatalf("%s did not happen: %s\nstatus: %+v", what, last, job.Status)
}

func (s *scene) now() *v1alpha1.ElasticJob {
	job := &v1alpha1.ElasticJob{}
	theCluster.admin.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: "train"}, job)
	return job
}

func (s *scene) pods(role string) map[string]*corev1.Pod {
	list := &corev1.PodList{}
	s.must(theCluster.admin.List(s.ctx, list, client.InNamespace(s.namespace),
		client.MatchingLabels{command.RoleLabel: role}))
	pods := map[string]*corev1.Pod{}
	for i := range list.Items {
		pods[list.Items[i].Name] = &list.Items[i]
	}
	return pods
}

// quota limits the namespace to so many pods, and returns once that is in force.
func (s *scene) quota(name, pods string) *corev1.ResourceQuota {
	s.Helper()
	quota := &corev1.ResourceQuota{}
	quota.Name, quota.Namespace = name, s.namespace
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}
	s.must(theCluster.admin.Create(s.ctx, quota))
	s.await("the quota", func() string {
		s.must(theCluster.admin.Get(s.ctx, client.ObjectKeyFromObject(quota), quota))
		if quota.Status.Hard == nil {
			return "it is not in force"
		}
		return ""
	})
	return quota
}

// No pod of `before` was replaced, and the job has its first master.
func (s *scene) goesOnWith(before map[string]*corev1.Pod) {
	s.T.Helper()
	now := s.pods(command.RoleNode)
	for name, pod := range before {
		if found := now[name]; found == nil || found.UID != pod.UID {
			s.T.Errorf("%s was replaced", name)
		}
	}
	if got := s.now().Status.MasterTerm; got != 1 {
		s.T.Errorf("term %d", got)
	}
}

func (s *scene) awaitNodes(names ...string) {
	s.Helper()
	s.await("the pods "+strings.Join(names, " "), func() string {
		pods := s.pods(command.RoleNode)
		for _, name := range names {
			if pods[name] == nil {
				return name + " is missing"
			}
		}
		if len(pods) != len(names) {
			return fmt.Sprintf("%d pods", len(pods))
		}
		return ""
	})
}

// nodeNames is names of pods of first incarnations.
func nodeNames(count int) []string {
	var names []string
	for index := range count {
		names = append(names, decide.NodePodName("train", decide.NodeID{Index: uint32(index)}))
	}
	return names
}

// runs is the kubelet: the pod runs at the address.
func (s *scene) runs(pod *corev1.Pod, address string) {
	s.Helper()
	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, address
	pod.Status.PodIPs = []corev1.PodIP{{IP: address}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "train", Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}
	s.must(theCluster.admin.Status().Update(s.ctx, pod))
}

// ends is the kubelet: the pod's container ended.
func (s *scene) ends(pod *corev1.Pod, code int32, message string) {
	s.Helper()
	pod.Status.Phase = corev1.PodFailed
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "train",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code,
			Reason: "Error", Message: message, FinishedAt: metav1.Now()}}}}
	s.must(theCluster.admin.Status().Update(s.ctx, pod))
}

// submit makes the job, waits for the term's master pod, and lets a fake master answer there.
func (s *scene) submit(job *v1alpha1.ElasticJob) {
	s.Helper()
	s.must(theCluster.admin.Create(s.ctx, job))
	s.serve(1)
}

func (s *scene) serve(term int64) {
	s.Helper()
	name := decide.MasterName("train", term)
	var pod *corev1.Pod
	s.await(name, func() string {
		if pod = s.pods(command.RoleMaster)[name]; pod == nil {
			return "there is no such pod"
		}
		return ""
	})
	if got := s.now().Status.MasterTerm; got < term {
		s.Fatalf("the pod of term %d exists in term %d", term, got)
	}
	secret := &corev1.Secret{}
	s.must(theCluster.admin.Get(s.ctx,
		client.ObjectKey{Namespace: s.namespace, Name: "train-master"}, secret))
	address := fmt.Sprintf("127.0.1.%d", hosts.Add(1))
	var err error
	s.fake, err = fakemaster.Start(fmt.Sprintf("%s:%d", address, command.Port),
		string(secret.Data[command.TokenKey]), pki.Authority{
			CertificatePEM: secret.Data[command.CAKey], KeyPEM: secret.Data[command.CAKeyKey]})
	s.must(err)
	s.runs(pod, address)
	s.await("the stream", func() string {
		if s.fake.Streams() == 0 {
			return "there is none"
		}
		return ""
	})
}

func (s *scene) wish(seq uint64, size, spares uint32, incarnations map[uint32]uint32) {
	s.fake.Wish(&pb.Wish{Seq: seq, Intent: pb.Wish_RUN, Size: size, Spares: spares,
		Incarnations: incarnations})
}

func (s *scene) awaitCondition(kind string, isTrue bool) metav1.Condition {
	s.Helper()
	var found *metav1.Condition
	s.await(fmt.Sprintf("%s=%v", kind, isTrue), func() string {
		found = meta.FindStatusCondition(s.now().Status.Conditions, kind)
		if found == nil || (found.Status == metav1.ConditionTrue) != isTrue {
			return fmt.Sprintf("it is %+v", found)
		}
		return ""
	})
	return *found
}

// awaitTold waits until the master was told of the node; "": of any node.
func (s *scene) awaitTold(node string, isGone bool, words string) {
	s.Helper()
	s.await("what is told of "+node, func() string {
		for _, message := range s.fake.Told() {
			gone, pending := message.GetNodeGone(), message.GetNodePending()
			if isGone && gone.GetName() == node && strings.Contains(gone.GetEvidence(), words) ||
				!isGone && pending != nil && (node == "" || pending.GetName() == node) &&
					strings.Contains(pending.GetReason(), words) {
				return ""
			}
		}
		return fmt.Sprint(s.fake.Told())
	})
}
