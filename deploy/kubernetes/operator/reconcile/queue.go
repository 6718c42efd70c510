package reconcile

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"paceline.dev/operator/command"
)

// closeGroup tells the queue that the pod's group gets no further pod.
func (r *Reconciler) closeGroup(ctx context.Context, namespace, name string) error {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = namespace, name
	said := fmt.Sprintf(`{"metadata":{"annotations":{%q:"false"}}}`, command.QueueGroupRetriable)
	err := r.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, []byte(said)))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("telling the queue of the pod %s: %w", name, err)
	}
	return nil
}

// closeGroupsOf does so for the pods of jobs of that name that do not exist any more. `living` is the
// UID of the job that has the name now, or "". Kueue would keep those pods Terminating for ever.
func (r *Reconciler) closeGroupsOf(ctx context.Context, key types.NamespacedName,
	living types.UID) error {
	var pods corev1.PodList
	err := r.Client.List(ctx, &pods, client.InNamespace(key.Namespace),
		client.MatchingFields{podIndex: key.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("listing the pods of deleted jobs: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		owner := ownerOf(pod)
		if owner == "" || owner == living || command.OpenGroup(pod) == "" {
			continue
		}
		if err := r.closeGroup(ctx, pod.Namespace, pod.Name); err != nil {
			return err
		}
	}
	return nil
}
