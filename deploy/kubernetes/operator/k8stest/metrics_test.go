package k8stest

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"paceline.dev/operator/internal/pb"
)

// scrape returns the answer of an operator's /metrics, or why there is none.
func scrape(address, token string) (code int, body string) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequest("GET", "https://"+address+"/metrics", nil)
	if err != nil {
		return 0, err.Error()
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// awaitSeries waits until the metrics have the line, or have it no more.
func (s *scene) awaitSeries(address, line string, isThere bool) {
	s.Helper()
	s.await(fmt.Sprintf("there=%v of %s", isThere, line), func() string {
		code, body := scrape(address, readerToken)
		if code != http.StatusOK || strings.Contains(body, line) != isThere {
			return fmt.Sprint(code, " ", body[:min(len(body), 200)])
		}
		return ""
	})
}

// mayReadMetrics binds the ClusterRole of install.yaml to the reader, as the guide says.
func (s *scene) mayReadMetrics() {
	s.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reads-metrics"},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: "paceline-metrics-reader"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: readerUser}},
	}
	s.must(client.IgnoreAlreadyExists(theCluster.admin.Create(s.ctx, binding)))
}

func TestMetricsOfJobsAreForThoseWhoMayReadThem(t *testing.T) {
	s := set(t)
	s.killOperator()
	address := fmt.Sprintf("127.0.0.1:%d", freePort())
	// A flag that is given twice has its last value.
	s.process = s.spawnNamed("operator-"+s.namespace, "0", "--metrics-address", address)
	s.mayReadMetrics()
	s.submit(s.job(1, 3, 0))
	s.wish(1, 3, 0, nil)
	none := uint32(0)
	s.fake.Summary(&pb.Summary{Phase: "running", Nodes: 1, Step: 7, Size: &none,
		Measures: []*pb.Measure{{Name: "step", Value: 7}, {Name: "restarts", Value: 2},
			{Name: "phase", Of: "running", Value: 1}, {Name: "go_goroutines", Value: -1}}})
	labels := fmt.Sprintf(`{job="train",namespace=%q}`, s.namespace)
	s.awaitSeries(address, "paceline_step"+labels+" 7", true)
	s.awaitSeries(address, "paceline_restarts_total"+labels+" 2", true)
	s.awaitSeries(address, "paceline_operator_master_heard"+labels+" 1", true)
	s.awaitSeries(address, "paceline_operator_nodes_wanted"+labels+" 3", true)
	for _, test := range []struct {
		token string
		code  int
	}{{"", http.StatusUnauthorized}, {operatorToken, http.StatusForbidden},
		// controller-runtime's answer to a token that the API server does not know
		{"nonsense", http.StatusInternalServerError}} {
		if code, body := scrape(address, test.token); code != test.code ||
			strings.Contains(body, "paceline_") {
			t.Errorf("token %q: %d %s", test.token, code, body)
		}
	}
	s.fake.End(0, "done")
	s.awaitSeries(address, s.namespace, false)
}
