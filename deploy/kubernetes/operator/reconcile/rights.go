package reconcile

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"paceline.dev/operator/api/v1alpha1"
)

const (
	rightsInterval = 5 * time.Second // between checks while a right is missing
	rightsTimeout  = 10 * time.Second
	rightsReason   = "RightsMissing"
)

type right struct{ verbs, group, resource, subresource string }

// neededRights are those of config/rbac.yaml without which a job is not looked after. Without `patch
// pods` only jobs in a queue of Kueue lack something, when they end.
var neededRights = []right{
	{"list watch", "paceline.dev", "elasticjobs", ""},
	{"update", "paceline.dev", "elasticjobs", "status"},
	{"get list watch create delete", "", "pods", ""},
	{"get create update", "", "services", ""},
	{"get create", "", "secrets", ""},
}

// leaseRights are needed in the namespace of the Lease by operators that share their work.
var leaseRights = right{"get create update", "coordination.k8s.io", "leases", ""}

// Rights asks the API server which rights this operator lacks, and names them in the jobs. It needs
// no cache, because a cache does not begin without the right to list.
type Rights struct {
	api       client.Client
	namespace string
	log       logr.Logger
	asked     chan struct{}
	// Of operators that share their work; without a name there is one operator.
	lease   types.NamespacedName
	elected <-chan struct{} // closed when this operator holds the Lease

	mutex    sync.Mutex
	missing  string
	isAtWork bool // jobs are looked at, so their conditions are not written here
}

// NewRights makes the check. `namespace` is the one of all jobs; "": the operator has all.
func NewRights(manager ctrl.Manager, namespace string) (*Rights, error) {
	api, err := client.New(manager.GetConfig(), client.Options{Scheme: manager.GetScheme()})
	return &Rights{api: api, namespace: namespace, log: manager.GetLogger(),
		asked: make(chan struct{}, 1)}, err
}

// Share tells that this operator works only while it holds the Lease. Call it before Run.
func (r *Rights) Share(lease types.NamespacedName, elected <-chan struct{}) {
	r.lease, r.elected = lease, elected
}

// isFollower returns true while another operator holds the Lease. That operator writes the jobs'
// conditions. Without the right to read the Lease no operator can hold it for long.
func (r *Rights) isFollower(ctx context.Context) bool {
	if r.lease.Name == "" {
		return false
	}
	select {
	case <-r.elected:
		return false
	default:
	}
	var lease coordinationv1.Lease
	if err := r.api.Get(ctx, r.lease, &lease); err != nil {
		return false
	}
	holder, renewed, seconds := lease.Spec.HolderIdentity, lease.Spec.RenewTime,
		lease.Spec.LeaseDurationSeconds
	return holder != nil && *holder != "" && renewed != nil && seconds != nil &&
		time.Since(renewed.Time) < time.Duration(*seconds)*time.Second
}

// Ask makes Run look again: the API server refused something.
func (r *Rights) Ask() {
	select {
	case r.asked <- struct{}{}:
	default:
	}
}

// Ready is the readiness probe: it names what is missing.
func (r *Rights) Ready(*http.Request) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.missing != "" {
		return fmt.Errorf("%s", sentenceOfMissing(r.missing))
	}
	return nil
}

func (r *Rights) beginWork() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.isAtWork = true
}

// Run checks at the start and when asked, and goes on while a right is missing.
func (r *Rights) Run(ctx context.Context) {
	for ctx.Err() == nil {
		again := (<-chan time.Time)(nil)
		if r.look(ctx) {
			again = time.After(rightsInterval)
		}
		select {
		case <-ctx.Done():
		case <-r.asked:
			if again != nil { // in its own time
				select {
				case <-ctx.Done():
				case <-again:
				}
			}
		case <-again:
		}
	}
}

// look returns true if it has to look again soon.
func (r *Rights) look(parent context.Context) bool {
	ctx, cancel := context.WithTimeout(parent, rightsTimeout)
	defer cancel()
	missing, err := r.find(ctx)
	if err != nil { // the API server is away, or answers no such question
		r.log.V(1).Info("rights_unknown", "why", err.Error())
		return false
	}
	words := strings.Join(missing, ", ")
	r.mutex.Lock()
	isNew, isAtWork := words != r.missing, r.isAtWork
	r.missing = words
	r.mutex.Unlock()
	if isNew {
		r.log.Info("rights", "missing", words)
	}
	if words == "" {
		return false
	}
	if r.isFollower(ctx) {
		return true
	}
	if err := r.tellJobs(ctx, sentenceOfMissing(words), isNew, isAtWork); err != nil && isNew {
		r.log.Error(err, "rights_not_told")
	}
	return true
}

func sentenceOfMissing(words string) string {
	return "The operator lacks rights: it may not " + words + ". Apply the install.yaml of its " +
		"release, which has them all."
}

// find returns the missing rights: "list pods".
func (r *Rights) find(ctx context.Context) ([]string, error) {
	var missing []string
	for _, needed := range neededRights {
		lacks, err := r.lacks(ctx, r.namespace, needed)
		if err != nil {
			return nil, err
		}
		missing = append(missing, lacks...)
	}
	if r.lease.Name == "" {
		return missing, nil
	}
	lacks, err := r.lacks(ctx, r.lease.Namespace, leaseRights)
	return append(missing, lacks...), err
}

// lacks returns the verbs of one right that are missing.
func (r *Rights) lacks(ctx context.Context, namespace string, needed right) ([]string, error) {
	var missing []string
	for _, verb := range strings.Fields(needed.verbs) {
		review := &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace,
					Verb: verb, Group: needed.group, Resource: needed.resource,
					Subresource: needed.subresource}}}
		if err := r.api.Create(ctx, review); err != nil {
			return nil, err
		}
		if !review.Status.Allowed {
			name := strings.TrimSuffix(needed.resource+"/"+needed.subresource, "/")
			missing = append(missing, verb+" "+name)
		}
	}
	return missing, nil
}

// tellJobs writes the sentence into each job that has not ended. A job that the operator looks after
// gets an event only, when the missing rights change: its conditions say how its master is.
func (r *Rights) tellJobs(ctx context.Context, sentence string, isNew, isAtWork bool) error {
	var jobs v1alpha1.ElasticJobList
	if err := r.api.List(ctx, &jobs, client.InNamespace(r.namespace)); err != nil {
		return err
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if job.Status.FinishedAt != nil || job.DeletionTimestamp != nil || isAtWork && !isNew ||
			job.Unreadable != "" { // a write of its status would lose fields
			continue
		}
		if !isAtWork && !meta.SetStatusCondition(&job.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionMasterReady, Status: metav1.ConditionFalse, Reason: rightsReason,
			Message: sentence, ObservedGeneration: job.Generation}) {
			continue // told already
		}
		if !isAtWork {
			if err := r.api.Status().Update(ctx, job); err != nil {
				r.log.V(1).Info("rights_not_in_status", "job", keyOf(job), "why", err.Error())
			}
		}
		if err := r.api.Create(ctx, eventOf(job, sentence)); err != nil {
			return err
		}
	}
	return nil
}

// eventOf is made by hand, because the manager's recorder writes nothing before the caches begin.
func eventOf(job *v1alpha1.ElasticJob, sentence string) *corev1.Event {
	now := metav1.Now()
	event := &corev1.Event{
		InvolvedObject: corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(),
			Kind: "ElasticJob", Namespace: job.Namespace, Name: job.Name, UID: job.UID},
		Reason: rightsReason, Message: sentence, Type: corev1.EventTypeWarning, Count: 1,
		Source:         corev1.EventSource{Component: "paceline-operator"},
		FirstTimestamp: now, LastTimestamp: now,
	}
	event.Namespace, event.GenerateName = job.Namespace, job.Name+"-rights-"
	return event
}
