package command

import (
	"slices"
	"sort"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"paceline.dev/operator/api/v1alpha1"
	"paceline.dev/operator/decide"
)

// Labels of a job's pods.
const (
	JobLabel         = "paceline.dev/job"
	RoleLabel        = "paceline.dev/role" // master or node
	TermLabel        = "paceline.dev/term"
	NodeLabel        = "paceline.dev/node" // the node's index
	IncarnationLabel = "paceline.dev/incarnation"

	RoleMaster = "master"
	RoleNode   = "node"
)

const (
	credentialsVolume = "paceline-credentials"
	sharedMemory      = "paceline-shm"
	sharedMemoryPath  = "/dev/shm"
	defaultGrace      = 30
	// Seconds after which pods leave a node that is NotReady. Kubernetes' own default is 300.
	tolerationSeconds = 15
	// User of a container whose template names none: images often name root, which is refused.
	defaultUser = 1000
)

// OwnerOf makes the job the owner, so that the garbage collector deletes what the job has made.
func OwnerOf(job *v1alpha1.ElasticJob) []metav1.OwnerReference {
	isController := true
	return []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "ElasticJob",
		Name: job.Name, UID: job.UID, Controller: &isController,
	}}
}

// NodePod is the pod of a node's incarnation. It is not placed where one of those host names is the
// label of the Kubernetes node.
func NodePod(job *v1alpha1.ElasticJob, id decide.NodeID, excluded []string) *corev1.Pod {
	pod := podOf(job, decide.NodePodName(job.Name, id), RoleNode)
	pod.Labels[NodeLabel] = strconv.FormatUint(uint64(id.Index), 10)
	pod.Labels[IncarnationLabel] = strconv.FormatUint(uint64(id.Incarnation), 10)
	addQueue(job, pod, id.Index < uint32(job.Spec.Nodes.Min))
	train := trainContainer(&pod.Spec)
	train.Command = Node(job, decide.NodeName(id.Index), id.Incarnation)
	finishPod(job, pod, NodeSecretName(job.Name), 0)
	addHost(train)
	spread(&pod.Spec, job.Name)
	avoid(&pod.Spec, excluded)
	return pod
}

// MasterPod returns the pod of a term's master. Of the template's containers it has only train,
// without devices. `survivors` is the number of nodes of the job that run now.
func MasterPod(job *v1alpha1.ElasticJob, term int64, survivors int) *corev1.Pod {
	pod := podOf(job, decide.MasterName(job.Name, term), RoleMaster)
	pod.Labels[TermLabel] = strconv.FormatInt(term, 10)
	addQueue(job, pod, true)
	train := *trainContainer(&pod.Spec)
	train.Command = Master(job)
	train.Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("500m"),
		corev1.ResourceMemory: resource.MustParse("512Mi"),
	}}
	if job.Spec.Master.Resources != nil {
		train.Resources = *job.Spec.Master.Resources
	}
	// Probes, hooks and ports are those of a node.
	train.LivenessProbe, train.ReadinessProbe, train.StartupProbe = nil, nil, nil
	train.Lifecycle = nil
	train.Ports = []corev1.ContainerPort{{Name: "master", ContainerPort: Port}}
	pod.Spec.Containers = []corev1.Container{train}
	pod.Spec.ResourceClaims = nil
	placeMaster(&pod.Spec, &job.Spec.Master)
	finishPod(job, pod, ServiceName(job.Name), term)
	environment := map[string]string{"PACELINE_MASTER_SURVIVORS": strconv.Itoa(survivors)}
	if job.Status.Memo != "" {
		environment["PACELINE_MASTER_MEMO"] = job.Status.Memo
	}
	addEnvironment(trainContainer(&pod.Spec), environment)
	return pod
}

func podOf(job *v1alpha1.ElasticJob, name, role string) *corev1.Pod {
	template := job.Spec.Template.DeepCopy()
	pod := &corev1.Pod{Spec: template.Spec}
	pod.Name, pod.Namespace = name, job.Namespace
	pod.Labels, pod.Annotations = template.Labels, template.Annotations
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[JobLabel], pod.Labels[RoleLabel] = job.Name, role
	pod.OwnerReferences = OwnerOf(job)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations["kubectl.kubernetes.io/default-container"] = v1alpha1.TrainContainer
	return pod
}

// Grace is the time that a pod of the job has from SIGTERM to its end.
func Grace(job *v1alpha1.ElasticJob) time.Duration {
	seconds := int64(defaultGrace)
	if given := job.Spec.Template.Spec.TerminationGracePeriodSeconds; given != nil {
		seconds = *given
	}
	return time.Duration(seconds) * time.Second
}

// finishPod adds what masters and nodes share.
func finishPod(job *v1alpha1.ElasticJob, pod *corev1.Pod, secret string, term int64) {
	spec := &pod.Spec
	spec.RestartPolicy = corev1.RestartPolicyNever
	no := false
	if spec.AutomountServiceAccountToken == nil {
		spec.AutomountServiceAccountToken = &no
	}
	if spec.EnableServiceLinks == nil {
		spec.EnableServiceLinks = &no
	}
	grace := int64(Grace(job).Seconds())
	train := trainContainer(spec)
	train.Args = nil
	train.TerminationMessagePolicy = corev1.TerminationMessageReadFile
	addEnvironment(train, Environment(job, term, grace))
	addCredentials(spec, train, secret)
	addSharedMemory(spec, train)
	addTolerations(spec)
	restrict(spec)
}

// addEnvironment leaves what the template says.
func addEnvironment(container *corev1.Container, environment map[string]string) {
	names := make([]string, 0, len(environment))
	for name := range environment {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if !slices.ContainsFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == name }) {
			container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: environment[name]})
		}
	}
}

// addCredentials mounts the Secret. All users of the container may read it, because the template
// chooses the user. Only the job runs in the container.
func addCredentials(spec *corev1.PodSpec, train *corev1.Container, secret string) {
	mode := int32(0o444)
	spec.Volumes = append(spec.Volumes, corev1.Volume{
		Name: credentialsVolume,
		VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: &mode},
		},
	})
	train.VolumeMounts = append(train.VolumeMounts, corev1.VolumeMount{
		Name: credentialsVolume, MountPath: CredentialsDir, ReadOnly: true,
	})
}

// addSharedMemory puts /dev/shm into memory without the runtime's limit of 64 MiB. What a pod
// writes there counts against the memory limit of its containers.
func addSharedMemory(spec *corev1.PodSpec, train *corev1.Container) {
	isMounted := func(mount corev1.VolumeMount) bool { return mount.MountPath == sharedMemoryPath }
	if slices.ContainsFunc(train.VolumeMounts, isMounted) {
		return
	}
	spec.Volumes = append(spec.Volumes, corev1.Volume{
		Name: sharedMemory,
		VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory},
		},
	})
	train.VolumeMounts = append(train.VolumeMounts,
		corev1.VolumeMount{Name: sharedMemory, MountPath: sharedMemoryPath})
}

// addTolerations leaves the template's own tolerations of the same taints.
func addTolerations(spec *corev1.PodSpec) {
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		isSaid := slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool {
			return t.Key == key || t.Key == "" && t.Operator == corev1.TolerationOpExists
		})
		if !isSaid {
			seconds := int64(tolerationSeconds)
			spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
				TolerationSeconds: &seconds,
			})
		}
	}
}
