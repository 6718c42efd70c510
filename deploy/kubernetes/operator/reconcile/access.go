package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"paceline.dev/operator/api/v1alpha1"
	"paceline.dev/operator/command"
	"paceline.dev/operator/decide"
	"paceline.dev/operator/master"
	"paceline.dev/operator/pki"
)

// wordsOf returns the API server's own words, or the error's text if the server gave none. The name
// of the pod is left out, because the words hold for the job's other pods as well.
func wordsOf(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Message == "" {
		return err.Error()
	}
	message := status.Status().Message
	if details := status.Status().Details; details != nil {
		message = strings.TrimPrefix(message,
			fmt.Sprintf("%s %q is forbidden: ", details.Kind, details.Name))
	}
	return message
}

// delayOf is how long the API server asks to wait.
func delayOf(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return time.Duration(seconds) * time.Second
}

// ensureSecrets makes the job's authority and token. The master's Secret is the original: an
// operator that died after it makes the nodes' Secret from it.
func (r *Reconciler) ensureSecrets(ctx context.Context, job *v1alpha1.ElasticJob,
	m *memory) error {
	found := &corev1.Secret{}
	key := types.NamespacedName{Namespace: job.Namespace, Name: command.ServiceName(job.Name)}
	err := r.Reader.Get(ctx, key, found)
	if apierrors.IsNotFound(err) {
		authority, failed := pki.NewAuthority(job.Name, r.Now())
		if failed != nil {
			return failed
		}
		found, _ = command.Secrets(job, []byte(pki.NewToken()), authority.CertificatePEM,
			authority.KeyPEM)
		err = r.Client.Create(ctx, found)
	}
	if err != nil {
		return err
	}
	if ownerOf(found) != job.UID {
		return errTaken{"Secret", found.Name}
	}
	data := found.Data
	_, node := command.Secrets(job, data[command.TokenKey], data[command.CAKey], nil)
	if err := r.create(ctx, job, node); err != nil {
		return err
	}
	m.keep(data)
	r.wake(job)
	return nil
}

// ensureService leads the job's address to the master of the current term.
func (r *Reconciler) ensureService(ctx context.Context, job *v1alpha1.ElasticJob,
	m *memory) error {
	wanted := command.Service(job, job.Status.MasterTerm)
	found := &corev1.Service{}
	err := r.Reader.Get(ctx, types.NamespacedName{Namespace: job.Namespace, Name: wanted.Name}, found)
	switch {
	case apierrors.IsNotFound(err):
		err = r.Client.Create(ctx, wanted)
	case err != nil:
	case ownerOf(found) != job.UID:
		err = errTaken{"Service", found.Name}
	case !maps.Equal(found.Spec.Selector, wanted.Spec.Selector):
		found.Spec.Selector = wanted.Spec.Selector
		err = r.Client.Update(ctx, found)
	}
	if err == nil {
		m.known.ServiceTerm = job.Status.MasterTerm
	}
	return err
}

// talk dials the master, or hangs up, and hands over what it is to know.
func (r *Reconciler) talk(job *v1alpha1.ElasticJob, m *memory, plan *decide.Plan) {
	key := keyOf(job)
	if plan.EndKept {
		r.Hub.KeptEnd(key)
		return
	}
	if plan.Dial == "" {
		r.Hub.HangUp(key)
		return
	}
	if stream := r.Hub.Stream(key); stream.Term == job.Status.MasterTerm && stream.Connected {
		r.tell(key, plan)
		return
	}
	target, err := r.targetOf(job, m, plan.Dial)
	if err != nil {
		r.Log.Error(err, "master_not_dialled", "job", key)
		return
	}
	r.Hub.Dial(key, target)
	r.tell(key, plan)
}

func (r *Reconciler) tell(key string, plan *decide.Plan) {
	if plan.Notice != "" {
		r.Hub.Notice(key, plan.Notice)
	}
	r.Hub.Tell(key, plan.Facts, plan.Notices)
	r.Hub.Want(key, plan.Size)
}

// targetOf signs the operator's certificate anew for each master, so that it does not expire.
func (r *Reconciler) targetOf(job *v1alpha1.ElasticJob, m *memory, address string) (
	master.Target, error) {
	roots, err := pki.Pool(m.authority.CertificatePEM)
	if err != nil {
		return master.Target{}, err
	}
	own, err := m.authority.Sign(pki.Certificate{Name: "operator", URI: command.OperatorURI}, r.Now())
	return master.Target{
		Term: job.Status.MasterTerm, Address: address, ServerName: command.ServerName,
		Token: m.token, Roots: roots, Own: own, Grace: command.Grace(job),
	}, err
}
