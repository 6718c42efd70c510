package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"paceline.dev/operator/decide"
	"paceline.dev/operator/series"
)

// reviewer is an API server that knows two tokens, and lets the user of one of them get /metrics.
func reviewer(t *testing.T) *httptest.Server {
	answers := http.NewServeMux()
	answers.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews",
		func(w http.ResponseWriter, r *http.Request) {
			var review authenticationv1.TokenReview
			answer(t, w, r, &review, func() {
				review.Status.Authenticated = strings.HasSuffix(review.Spec.Token, "-token")
				review.Status.User.Username = strings.TrimSuffix(review.Spec.Token, "-token")
			})
		})
	answers.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews",
		func(w http.ResponseWriter, r *http.Request) {
			var review authorizationv1.SubjectAccessReview
			answer(t, w, r, &review, func() {
				asked := review.Spec.NonResourceAttributes
				review.Status.Allowed = review.Spec.User == "reader" && asked != nil &&
					asked.Path == "/metrics" && asked.Verb == "get"
			})
		})
	api := httptest.NewServer(answers)
	t.Cleanup(api.Close)
	return api
}

func answer(t *testing.T, w http.ResponseWriter, r *http.Request, review any, judge func()) {
	if err := json.NewDecoder(r.Body).Decode(review); err != nil {
		t.Error(err)
	}
	judge()
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(review)
}

// The options are those of the operator; only the API server is made.
func TestMetricsNeedATokenOfSomebodyWhoMayReadThem(t *testing.T) {
	collector := series.New(func() []series.Job {
		return []series.Job{{Namespace: "a", Name: "train",
			Measures: []decide.Measure{{Name: "step", Value: 12}}}}
	})
	metrics.Registry.MustRegister(collector)
	t.Cleanup(func() { metrics.Registry.Unregister(prometheus.Collector(collector)) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	config := &rest.Config{Host: reviewer(t).URL}
	made, err := server.NewServer(metricsOptions(flags{metrics: address}), config, http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- made.Start(ctx) }()
	defer func() { cancel(); <-ended }()
	for _, test := range []struct {
		token string
		code  int
	}{{"reader-token", 200}, {"", 401}, {"stranger-token", 403},
		{"nonsense", 500}} { // controller-runtime's answer to a token that the API server does not know
		code, body := scrape(t, address, test.token)
		if code != test.code {
			t.Errorf("token %q: %d %s", test.token, code, body)
		}
		hasSeries := strings.Contains(body, `paceline_step{job="train",namespace="a"} 12`)
		if hasSeries != (test.code == 200) {
			t.Errorf("token %q: has the series: %v\n%s", test.token, hasSeries, body)
		}
	}
}

// scrape waits until the server answers.
func scrape(t *testing.T, address, token string) (int, string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	request, _ := http.NewRequest("GET", "https://"+address+"/metrics", nil)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err == nil {
			defer response.Body.Close()
			body, _ := io.ReadAll(response.Body)
			return response.StatusCode, string(body)
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
