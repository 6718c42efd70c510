package reconcile

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"paceline.dev/operator/api/v1alpha1"
)

const unreadableReason = "Unreadable"

// Time between two attempts to write the status of a job that cannot be read.
const unreadableInterval = 30 * time.Second

// tellUnreadable says in the job which of its fields cannot be read. Nothing else of the job is
// touched: its pods go on, and the operator looks after them again once the field is mended.
func (r *Reconciler) tellUnreadable(ctx context.Context, job *v1alpha1.ElasticJob,
	m *memory) (ctrl.Result, error) {
	sentence := job.Unreadable + ". The operator leaves this job and its pods as they are until that " +
		"field is mended. If a newer release wrote the job, start the operator of that release."
	isNew := m.unreadable != sentence
	if isNew {
		r.Events.Event(job, corev1.EventTypeWarning, unreadableReason, sentence)
		r.Log.Info("job_unreadable", "job", keyOf(job), "why", job.Unreadable)
	}
	m.unreadable = sentence
	if err := r.markUnreadable(ctx, job, sentence); err != nil {
		// An API server whose rules read the field refuses each write, of the status as well. The
		// event has been told.
		if isNew {
			r.Log.Info("job_unreadable_unmarked", "job", keyOf(job), "why", err.Error())
		}
		return ctrl.Result{RequeueAfter: unreadableInterval}, nil
	}
	return ctrl.Result{}, nil
}

// markUnreadable changes one condition and the state. It reads the object without types, so that all
// other fields of the status stay as they are.
func (r *Reconciler) markUnreadable(ctx context.Context, job *v1alpha1.ElasticJob,
	sentence string) error {
	raw := &unstructured.Unstructured{}
	raw.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ElasticJob"))
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(job), raw); err != nil {
		return client.IgnoreNotFound(err)
	}
	if raw.GetUID() != job.UID || raw.GetResourceVersion() != job.ResourceVersion {
		return nil // the watch shows the newer one
	}
	if _, hasStatus := raw.Object["status"]; !hasStatus {
		raw.Object["status"] = map[string]any{}
	}
	status, isObject := raw.Object["status"].(map[string]any)
	if !isObject {
		return fmt.Errorf("its status is no object")
	}
	if _, hasEnded := status["finishedAt"]; hasEnded {
		return nil // its conditions say how
	}
	var known struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	only := map[string]any{"conditions": status["conditions"]}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(only, &known); err != nil {
		return fmt.Errorf("its conditions cannot be read: %w", err)
	}
	isNew := meta.SetStatusCondition(&known.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionMasterReady, Status: metav1.ConditionFalse, Reason: unreadableReason,
		Message: sentence, ObservedGeneration: job.Generation})
	if !isNew {
		return nil
	}
	written, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&known)
	if err != nil {
		return err
	}
	status["conditions"], status["state"] = written["conditions"], unreadableReason
	return r.Client.Status().Update(ctx, raw)
}
