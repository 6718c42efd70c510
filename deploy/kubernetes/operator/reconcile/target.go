package reconcile

import (
	"context"
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"paceline.dev/operator/api/v1alpha1"
)

const targetPause = 30 * time.Second

// setTarget writes spec.nodes.target through the subresource scale, which can write no other field.
// The write is refused if anybody has changed the job since it was read.
func (r *Reconciler) setTarget(ctx context.Context, job *v1alpha1.ElasticJob, m *memory,
	target int32) error {
	if r.Now().Before(m.targetNext) {
		return nil
	}
	scale := &autoscalingv1.Scale{}
	scale.Namespace, scale.Name, scale.ResourceVersion = job.Namespace, job.Name, job.ResourceVersion
	scale.Spec.Replicas = target
	err := r.Client.SubResource("scale").Update(ctx, job, client.WithSubResourceBody(scale))
	switch {
	case err == nil:
		r.Log.Info("target_set", "job", keyOf(job), "nodes", target)
		return nil
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		// The ClusterRole or the definition of ElasticJob is older than the operator. Only `kubectl
		// scale` lacks something.
		r.Log.Info("target_not_set", "job", keyOf(job), "why", err.Error())
		m.targetNext = r.Now().Add(targetPause)
		return nil
	}
	return fmt.Errorf("setting spec.nodes.target: %w", err)
}
