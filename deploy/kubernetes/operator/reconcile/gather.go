package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"paceline.dev/operator/api/v1alpha1"
	"paceline.dev/operator/command"
	"paceline.dev/operator/decide"
)

const overdueAfter = 30 * time.Second

// gather makes the snapshot from the cache. It asks the API server only about the node of a
// master's pod that is Terminating.
func (r *Reconciler) gather(ctx context.Context, job *v1alpha1.ElasticJob, m *memory) (
	decide.Snapshot, error) {
	now := r.Now()
	snapshot := decide.Snapshot{Now: now, Job: jobOf(job), Stream: r.Hub.Stream(keyOf(job))}
	var pods corev1.PodList
	err := r.Client.List(ctx, &pods, client.InNamespace(job.Namespace),
		client.MatchingFields{podIndex: job.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return snapshot, fmt.Errorf("listing the job's pods: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if ownerOf(pod) != job.UID {
			continue
		}
		plain := podOf(pod, now)
		plain.Group = snapshot.Job.Queued && command.OpenGroup(pod) != ""
		if pod.Labels[command.RoleLabel] == command.RoleMaster {
			master, ok := r.masterOf(ctx, pod, plain)
			if ok {
				snapshot.Masters = append(snapshot.Masters, master)
			}
		} else if index, incarnation, ok := parseNodePod(job.Name, pod.Name); ok {
			plain.Leaving = decide.NoticeOf(r.hosts.taintsOf(pod.Spec.NodeName), pod.Spec.Tolerations,
				pod.Spec.NodeName)
			snapshot.Nodes = append(snapshot.Nodes,
				decide.NodePod{Pod: plain, Index: index, Incarnation: incarnation})
		}
	}
	m.note(&snapshot)
	snapshot.Memory = m.snapshot()
	return snapshot, nil
}

func jobOf(job *v1alpha1.ElasticJob) decide.Job {
	result := decide.Job{
		Name: job.Name, Generation: job.Generation, Deleting: job.DeletionTimestamp != nil,
		Suspend: job.Spec.Suspend, Invalid: command.Invalid(job),
		Queued: command.QueueGroup(job) != "", NodesMin: job.Spec.Nodes.Min,
		NodesMax: job.Spec.Nodes.Max, Target: job.Spec.Nodes.Target, Spares: job.Spec.Spares,
		Selector: command.NodeSelector(job.Name), Status: job.Status,
	}
	if job.Spec.TTLSecondsAfterFinished != nil {
		ttl := time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second
		result.TTL = &ttl
	}
	return result
}

// ownerOf returns the UID of the job that made the pod, or "".
func ownerOf(object client.Object) types.UID {
	for _, owner := range object.GetOwnerReferences() {
		if owner.Controller != nil && *owner.Controller && owner.Kind == "ElasticJob" {
			return owner.UID
		}
	}
	return ""
}

// parseNodePod reads JOB-nodeINDEX-INCARNATION.
func parseNodePod(job, name string) (index, incarnation uint32, ok bool) {
	rest, hasPrefix := strings.CutPrefix(name, job+"-node")
	first, second, hasBoth := strings.Cut(rest, "-")
	if !hasPrefix || !hasBoth {
		return 0, 0, false
	}
	one, err := strconv.ParseUint(first, 10, 32)
	if err != nil {
		return 0, 0, false
	}
	two, err := strconv.ParseUint(second, 10, 31)
	return uint32(one), uint32(two), err == nil
}

// trainStatus returns the status of the container train, or nil.
func trainStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == v1alpha1.TrainContainer {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}

func podOf(pod *corev1.Pod, now time.Time) decide.Pod {
	result := decide.Pod{Name: pod.Name, UID: string(pod.UID), Created: pod.CreationTimestamp.Time,
		Terminating: pod.DeletionTimestamp != nil}
	if result.Terminating {
		// The deletion's time is the end of the grace period.
		result.Overdue = now.After(pod.DeletionTimestamp.Add(overdueAfter))
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
			result.Disrupted = true
		}
	}
	train := trainStatus(pod)
	switch {
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed ||
		train != nil && train.State.Terminated != nil:
		result.Phase = decide.Ended
		result.Reason, result.EndedAt = endOf(pod, train)
	case train != nil && train.State.Running != nil,
		train == nil && pod.Status.Phase == corev1.PodRunning:
		result.Phase = decide.Running
	default:
		result.Phase = decide.Waiting
		result.Reason = waitOf(pod)
	}
	return result
}

// endOf says how the pod ended, in words that follow a name, and when: "ended with exit code 1 in
// its pod train-node3-0 (OOMKilled)".
func endOf(pod *corev1.Pod, train *corev1.ContainerStatus) (string, time.Time) {
	end, how := pod.CreationTimestamp.Time, "ended"
	var details []string
	for _, text := range []string{pod.Status.Reason, pod.Status.Message} {
		if text != "" {
			details = append(details, strings.TrimSpace(text))
		}
	}
	if train != nil && train.State.Terminated != nil {
		state := train.State.Terminated
		end, how = state.FinishedAt.Time, fmt.Sprintf("ended with exit code %d", state.ExitCode)
		if state.Reason != "" && state.Reason != "Error" && state.Reason != "Completed" {
			details = append(details, state.Reason)
		}
		// If a container could not be started, this is the runtime's reason. If it ran, the message
		// is the container's own.
		if state.Message != "" && parseEnd(state.Message) == nil {
			details = append(details, strings.TrimSpace(state.Message))
		}
	}
	how += " in its pod " + pod.Name
	if len(details) > 0 {
		how += " (" + strings.Join(details, ": ") + ")"
	}
	return how, end
}

// waitOf says why the pod does not run yet, in the scheduler's or the kubelet's words; "" if
// nobody said.
func waitOf(pod *corev1.Pod) string {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses,
		pod.Status.ContainerStatuses} {
		for i := range statuses {
			waiting := statuses[i].State.Waiting
			if waiting == nil || waiting.Reason == "PodInitializing" ||
				waiting.Reason == "ContainerCreating" {
				continue
			}
			return strings.TrimRight(waiting.Reason+": "+waiting.Message, ": ")
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return strings.TrimRight(condition.Reason+": "+condition.Message, ": ")
		}
	}
	return ""
}

// parseEnd reads the last word that the master leaves in its termination message, or nil.
func parseEnd(message string) *decide.End {
	var end struct {
		ExitCode *int32 `json:"exit_code"`
		Reason   string `json:"reason"`
	}
	if json.Unmarshal([]byte(message), &end) != nil || end.ExitCode == nil {
		return nil
	}
	return &decide.End{ExitCode: *end.ExitCode, Reason: end.Reason}
}

func (r *Reconciler) masterOf(ctx context.Context, pod *corev1.Pod, plain decide.Pod) (
	decide.MasterPod, bool) {
	term, err := strconv.ParseInt(pod.Labels[command.TermLabel], 10, 64)
	if err != nil {
		return decide.MasterPod{}, false
	}
	master := decide.MasterPod{Pod: plain, Term: term}
	if pod.Status.PodIP != "" {
		master.Address = net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(command.Port))
	}
	if train := trainStatus(pod); train != nil && train.State.Terminated != nil {
		code := train.State.Terminated.ExitCode
		master.ExitCode, master.Final = &code, parseEnd(train.State.Terminated.Message)
	}
	if plain.Terminating && plain.Phase != decide.Ended && pod.Spec.NodeName != "" {
		master.HostLost = r.isHostLost(ctx, pod.Spec.NodeName)
	}
	return master, true
}

// isHostLost says whether the node is NotReady or deleted. If the operator may not read nodes, the
// answer is no, and the pod's overdue end decides.
func (r *Reconciler) isHostLost(ctx context.Context, name string) bool {
	var node corev1.Node
	if err := r.Reader.Get(ctx, types.NamespacedName{Name: name}, &node); err != nil {
		return apierrors.IsNotFound(err)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status != corev1.ConditionTrue
		}
	}
	return false
}
