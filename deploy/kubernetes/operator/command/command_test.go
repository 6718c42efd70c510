package command

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"paceline.dev/operator/api/v1alpha1"
	"paceline.dev/operator/decide"
)

func train() *v1alpha1.ElasticJob {
	return &v1alpha1.ElasticJob{
		ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "team", UID: "7"},
		Spec: v1alpha1.ElasticJobSpec{
			Nodes: v1alpha1.NodeRange{Min: 6, Max: 8, Unit: 2}, Spares: 1,
			Script: v1alpha1.Script{File: "train.py", Args: []string{"--epochs", "3"}},
			Flags:  []string{"--ckpt-every", "30s"},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "train", Image: "me/train:7",
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
					"nvidia.com/gpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"),
				}},
			}, {Name: "sidecar", Image: "me/sidecar"}}}},
		},
	}
}

func TestCommandLines(t *testing.T) {
	job := train()
	got := strings.Join(Master(job), " ")
	want := "paceline run --credentials /etc/paceline/credentials --rdzv-endpoint 0.0.0.0:29400 " +
		"--local-nodes 0 --nnodes 6:8 --spares 1 --name train --nproc-per-node 4 " +
		"--run-dir /tmp/paceline/run --ckpt-every 30s train.py --epochs 3"
	if got != want {
		t.Errorf("master: %s", got)
	}
	job.Spec.Script = v1alpha1.Script{Module: "pkg.train"}
	got = strings.Join(Node(job, "node3", 2), " ")
	want = "paceline run --credentials /etc/paceline/credentials " +
		"--rdzv-endpoint train-master.team.svc:29400 --node-name node3 --incarnation 2 " +
		"--nproc-per-node 4 --run-dir /tmp/paceline/run --ckpt-every 30s --module pkg.train"
	if got != want {
		t.Errorf("node: %s", got)
	}
}

func TestRanksOfANode(t *testing.T) {
	job := train()
	two := int32(2)
	job.Spec.NprocPerNode = &two
	if got := NprocPerNode(job); got != 2 {
		t.Errorf("as written: %d", got)
	}
	job.Spec.NprocPerNode = nil
	job.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
		"cpu": resource.MustParse("4")}
	if got := NprocPerNode(job); got != 1 {
		t.Errorf("without GPUs: %d", got)
	}
}

func TestANodesPod(t *testing.T) {
	pod := NodePod(train(), decide.NodeID{Index: 3, Incarnation: 1}, nil)
	if pod.Name != "train-node3-1" || pod.Labels[NodeLabel] != "3" ||
		pod.Labels[IncarnationLabel] != "1" || pod.OwnerReferences[0].UID != "7" {
		t.Errorf("name and labels: %+v", pod.ObjectMeta)
	}
	spec := pod.Spec
	if spec.RestartPolicy != corev1.RestartPolicyNever || *spec.AutomountServiceAccountToken {
		t.Error("restart policy or token")
	}
	if len(spec.Containers) != 2 || spec.Containers[1].Command != nil {
		t.Error("the sidecar is as in the template")
	}
	if spec.Volumes[0].Secret.SecretName != "train-node" || spec.Volumes[1].EmptyDir.Medium != "Memory" {
		t.Errorf("volumes: %+v", spec.Volumes)
	}
	for _, toleration := range spec.Tolerations {
		if *toleration.TolerationSeconds != 15 {
			t.Errorf("toleration: %+v", toleration)
		}
	}
	if len(spec.Tolerations) != 2 {
		t.Errorf("tolerations: %+v", spec.Tolerations)
	}
	if env := spec.Containers[0].Env; env[0].Name != "PACELINE_GRACE_SECONDS" || env[0].Value != "30" ||
		env[1].Name != "PACELINE_JOB_UNIT" {
		t.Errorf("environment: %+v", env)
	}
}

func TestANodesPodKnowsItsHostAndAvoidsTheExcludedOnes(t *testing.T) {
	requirements := func(pod *corev1.Pod) []corev1.NodeSelectorTerm {
		if pod.Spec.Affinity == nil {
			return nil
		}
		return pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.
			NodeSelectorTerms
	}
	job := train()
	pod := NodePod(job, decide.NodeID{}, nil)
	host := pod.Spec.Containers[0].Env[len(pod.Spec.Containers[0].Env)-1]
	if host.Name != "PACELINE_PLATFORM_HOST" || host.ValueFrom.FieldRef.FieldPath != "spec.nodeName" {
		t.Errorf("the host: %+v", host)
	}
	if requirements(pod) != nil {
		t.Errorf("nothing is excluded: %+v", pod.Spec.Affinity)
	}
	long := strings.Repeat("h", 64) // no label has such a value
	terms := requirements(NodePod(job, decide.NodeID{}, []string{"host1", long, "host2"}))
	avoids := corev1.NodeSelectorRequirement{Key: "kubernetes.io/hostname", Operator: "NotIn",
		Values: []string{"host1", "host2"}}
	if len(terms) != 1 || !reflect.DeepEqual(terms[0].MatchExpressions,
		[]corev1.NodeSelectorRequirement{avoids}) {
		t.Errorf("%+v", terms)
	}
	zone := corev1.NodeSelectorRequirement{Key: "zone", Operator: "Exists"}
	job.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}, {}}}}}
	terms = requirements(NodePod(job, decide.NodeID{}, []string{"host1", "host2"}))
	if !reflect.DeepEqual(terms[0].MatchExpressions,
		[]corev1.NodeSelectorRequirement{zone, avoids}) || len(terms[1].MatchExpressions) != 0 {
		t.Errorf("beside the template's own: %+v", terms)
	}
	if got := len(requirements(NodePod(job, decide.NodeID{}, nil))[0].MatchExpressions); got != 1 {
		t.Errorf("the template was changed: %d", got)
	}
}

func TestAMastersPod(t *testing.T) {
	job := train()
	job.Status.Memo = `{"charged_failures":1}`
	pod := MasterPod(job, 4, 3)
	if pod.Name != "train-master-4" || len(pod.Spec.Containers) != 1 {
		t.Errorf("name or containers: %+v", pod)
	}
	master := pod.Spec.Containers[0]
	environment := map[string]string{}
	for _, one := range master.Env {
		environment[one.Name] = one.Value
	}
	if environment["PACELINE_MASTER_TERM"] != "4" || environment["PACELINE_MASTER_SURVIVORS"] != "3" {
		t.Errorf("the master is not told its term or who lives: %v", environment)
	}
	if environment["PACELINE_MASTER_MEMO"] != job.Status.Memo {
		t.Errorf("the master is not told the memo: %v", environment)
	}
	if _, hasGPU := master.Resources.Limits["nvidia.com/gpu"]; hasGPU {
		t.Error("a master has no GPU")
	}
	if pod.Spec.Volumes[0].Secret.SecretName != "train-master" {
		t.Errorf("volumes: %+v", pod.Spec.Volumes)
	}
	for key, value := range Selector("train", 4) {
		if pod.Labels[key] != value {
			t.Errorf("the Service does not select the master by %s", key)
		}
	}
	if _, selected := NodePod(train(), decide.NodeID{}, nil).Labels[TermLabel]; selected {
		t.Error("the Service must not select nodes")
	}
}

func TestPodsAreRestrictedWhereTheTemplateDoesNotSayOtherwise(t *testing.T) {
	pod := NodePod(train(), decide.NodeID{}, nil)
	own := pod.Spec.Containers[1].SecurityContext
	if !*pod.Spec.SecurityContext.RunAsNonRoot || *pod.Spec.SecurityContext.RunAsUser != 1000 ||
		*own.AllowPrivilegeEscalation || own.Capabilities.Drop[0] != "ALL" {
		t.Errorf("got %+v", pod.Spec)
	}
	job, root := train(), int64(0)
	job.Spec.Template.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &root}
	job.Spec.Template.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"IPC_LOCK"}}}
	pod = NodePod(job, decide.NodeID{}, nil)
	if pod.Spec.SecurityContext.RunAsNonRoot != nil || *pod.Spec.SecurityContext.RunAsUser != 0 ||
		pod.Spec.Containers[0].SecurityContext.Capabilities.Drop != nil {
		t.Errorf("the template's own words were changed: %+v", pod.Spec)
	}
	if job.Spec.Template.Spec.Volumes != nil {
		t.Error("the template itself was changed")
	}
}

func TestATemplatesMemoryDiskIsKept(t *testing.T) {
	job := train()
	job.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
		{Name: "own", MountPath: "/dev/shm"}}
	if got := len(NodePod(job, decide.NodeID{}, nil).Spec.Volumes); got != 1 {
		t.Errorf("%d volumes", got)
	}
}

func TestNodesDoNotGetTheAuthoritysKey(t *testing.T) {
	master, node := Secrets(train(), []byte("t"), []byte("c"), []byte("k"))
	if len(master.Data) != 3 || len(node.Data) != 2 || node.Data[CAKeyKey] != nil {
		t.Errorf("master %v, node %v", master.Data, node.Data)
	}
}

func TestInvalidSpecsSayWhatToDo(t *testing.T) {
	if got := Invalid(train()); got != "" {
		t.Errorf("a good spec: %s", got)
	}
	for words, change := range map[string]func(*corev1.PodSpec){
		"no container named":  func(s *corev1.PodSpec) { s.Containers[0].Name = "main" },
		"has no image":        func(s *corev1.PodSpec) { s.Containers[0].Image = "" },
		"has a command":       func(s *corev1.PodSpec) { s.Containers[0].Args = []string{"x"} },
		"restartPolicy":       func(s *corev1.PodSpec) { s.RestartPolicy = "Always" },
		"has hostNetwork":     func(s *corev1.PodSpec) { s.HostNetwork = true },
		`container named "tr`: func(s *corev1.PodSpec) { s.Containers = nil },
	} {
		job := train()
		change(&job.Spec.Template.Spec)
		if got := Invalid(job); !strings.Contains(got, words) {
			t.Errorf("wanted %q in %q", words, got)
		}
	}
}
