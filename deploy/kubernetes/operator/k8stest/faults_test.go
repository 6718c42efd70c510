package k8stest

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"paceline.dev/operator/command"
	"paceline.dev/operator/internal/pb"
)

// answerStatus is how an API server refuses.
func answerStatus(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`,
		reason, code)
}

// Watches break, the server says 410 to those that come anew, and then its list of pods is empty:
// the operator believes none of it.
func TestCutWatchesAndAnEmptyListChangeNothing(t *testing.T) {
	s := set(t)
	s.submit(s.job(1, 3, 0))
	s.wish(1, 3, 0, nil)
	s.awaitNodes(nodeNames(3)...)
	before, writes := s.pods(command.RoleNode), s.proxy.writes()
	var expired, empty atomic.Int32
	s.proxy.setAnswer(func(w http.ResponseWriter, r *http.Request) bool {
		switch verbOf(r) {
		case "WATCH pods":
			if r.URL.Query().Get("sendInitialEvents") != "" { // lists by watching: not here
				answerStatus(w, http.StatusUnprocessableEntity, "Invalid")
			} else {
				expired.Add(1)
				answerStatus(w, http.StatusGone, "Expired")
			}
			return true
		case "LIST pods":
			empty.Add(1)
			var real corev1.PodList
			if err := theCluster.admin.List(s.ctx, &real, client.InNamespace(s.namespace)); err != nil {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":%q},`+
				`"items":[]}`, real.ResourceVersion)
			return true
		}
		return false
	})
	s.proxy.server.CloseClientConnections()
	s.await("an empty list", func() string {
		if expired.Load() < 2 || empty.Load() < 2 {
			return fmt.Sprintf("%d watches refused, %d empty lists", expired.Load(), empty.Load())
		}
		return ""
	})
	s.await("questions about the three pods and the master's", func() string {
		if got := s.proxy.count("GET pods"); got < 4 {
			return fmt.Sprintf("%d questions", got)
		}
		return ""
	})
	s.proxy.setAnswer(nil)
	s.proxy.server.CloseClientConnections()
	s.wish(2, 4, 0, nil)
	s.awaitNodes(nodeNames(4)...)
	s.goesOnWith(before)
	if deletes := s.proxy.count("DELETE pods"); deletes > 0 {
		t.Errorf("%d pods were deleted; %d writes before, %d now", deletes, writes, s.proxy.writes())
	}
}

// Each watch gets 410, also those that list by watching. client-go would repeat those without a
// pause: thousands of requests in three seconds.
func TestWatchesThatAllExpireComeWithPauses(t *testing.T) {
	s := set(t)
	s.submit(s.job(1, 2, 0))
	s.wish(1, 2, 0, nil)
	s.awaitNodes(nodeNames(2)...)
	before := s.pods(command.RoleNode)
	var expired atomic.Int32
	s.proxy.setAnswer(func(w http.ResponseWriter, r *http.Request) bool {
		if verbOf(r) != "WATCH pods" {
			return false
		}
		expired.Add(1)
		answerStatus(w, http.StatusGone, "Expired")
		return true
	})
	s.proxy.server.CloseClientConnections()
	s.await("the first refused watches", func() string {
		if got := expired.Load(); got < 5 {
			return fmt.Sprintf("%d of them", got)
		}
		return ""
	})
	time.Sleep(3 * time.Second)
	if got := expired.Load(); got > 20 {
		t.Errorf("%d watches were asked for", got)
	}
	s.proxy.setAnswer(nil)
	s.wish(2, 3, 0, nil)
	s.awaitNodes(nodeNames(3)...)
	s.goesOnWith(before)
}

// An API server whose definition of ElasticJob is that of an older release drops what it does not
// know. The operator says so once, and does not write again and again.
func TestAnOldDefinitionIsNamedAndNotWrittenToForEver(t *testing.T) {
	s := setAlone(t)
	definition := &unstructured.Unstructured{}
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	key := client.ObjectKey{Name: "elasticjobs.paceline.dev"}
	change := func(edit func(status map[string]any)) {
		s.must(theCluster.admin.Get(s.ctx, key, definition))
		versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
		s.must(err)
		fields, _, err := unstructured.NestedFieldNoCopy(versions[0].(map[string]any), "schema",
			"openAPIV3Schema", "properties", "status", "properties")
		s.must(err)
		edit(fields.(map[string]any))
		s.must(unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions"))
		s.must(theCluster.admin.Update(s.ctx, definition))
	}
	var memo any
	change(func(status map[string]any) {
		memo = status["memo"]
		delete(status, "memo")
	})
	defer change(func(status map[string]any) { status["memo"] = memo })

	s.submit(s.job(1, 1, 0))
	s.wish(1, 1, 0, nil)
	s.fake.Summary(&pb.Summary{Phase: "running", Nodes: 1, Step: 7, Memo: "a memo"})
	s.await("an event that names the definition", func() string {
		var events corev1.EventList
		s.must(theCluster.admin.List(s.ctx, &events, client.InNamespace(s.namespace)))
		for _, event := range events.Items {
			if event.Reason == "OldDefinition" && strings.Contains(event.Message, "install.yaml") {
				return ""
			}
		}
		return "there is none"
	})
	s.await("a pause of the writes", func() string {
		before := s.proxy.count("PUT elasticjobs/status")
		time.Sleep(3 * time.Second) // three writes, if each look found a difference
		if after := s.proxy.count("PUT elasticjobs/status"); after != before {
			return fmt.Sprintf("%d writes became %d", before, after)
		}
		return ""
	})
}

// The operator is there before its definition.
func TestAMissingDefinitionIsNamed(t *testing.T) {
	s := set(t)
	s.killOperator()
	s.proxy.setAnswer(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/apis/paceline.dev") {
			answerStatus(w, http.StatusNotFound, "NotFound")
			return true
		}
		if r.URL.Path != "/apis" {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
		return true
	})
	s.startOperator()
	s.await("the operator's last words", func() string {
		log, err := os.ReadFile(theCluster.path("operator-" + s.namespace + ".log"))
		s.must(err)
		if !strings.Contains(string(log), "apply the install.yaml of this operator's release") {
			return "it says " + string(log)
		}
		return ""
	})
}
