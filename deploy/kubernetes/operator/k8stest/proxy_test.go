package k8stest

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
)

// proxy stands between the operator and the API server. It counts what the operator asks for, and
// goes wrong when a test wants it to.
type proxy struct {
	url    string
	server *httptest.Server

	mutex sync.Mutex
	// hook sees each request before it goes on; what it returns is the answer's status, 0: go on.
	hook func(*http.Request) int
	// answer may answer a request itself, and returns whether it has.
	answer func(http.ResponseWriter, *http.Request) bool
	counts map[string]int // by verb and kind: "POST pods"
	dones  map[string]int // the same, once answered
}

// newProxy speaks HTTP/1.1, so that a request of the operator may be one connection, which a test can
// cut. With `hasHTTP2` all requests share a connection, as without a proxy.
func newProxy(target string, hasHTTP2 bool) (*proxy, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	p := &proxy{counts: map[string]int{}, dones: map[string]int{}}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		FlushInterval: -1,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
			MaxIdleConnsPerHost: 64},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			panic(http.ErrAbortHandler)
		},
	}
	// With TLS, because a client does not send its token without.
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mutex.Lock()
		p.counts[verbOf(r)]++
		hook, answer := p.hook, p.answer
		p.mutex.Unlock()
		if answer != nil && answer(w, r) {
			return
		}
		if hook != nil {
			if status := hook(r); status != 0 {
				w.Header().Set("Retry-After", "1")
				http.Error(w, "the proxy refuses", status)
				return
			}
		}
		verb := verbOf(r)
		forward.ServeHTTP(w, r)
		p.mutex.Lock()
		p.dones[verb]++
		p.mutex.Unlock()
	}))
	p.server.EnableHTTP2 = hasHTTP2
	p.server.StartTLS()
	p.url = p.server.URL
	return p, nil
}

// verbOf is the method and the kind: "GET pods", "WATCH pods", "LIST pods".
func verbOf(r *http.Request) string {
	kind, isOne := "", false
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	for i, part := range parts {
		switch part {
		case "pods", "services", "secrets", "events", "elasticjobs", "nodes":
			kind, isOne = part, i+1 < len(parts)
			if i+2 < len(parts) {
				kind += "/" + parts[i+2]
			}
		}
	}
	method := r.Method
	if method == http.MethodGet && r.URL.Query().Get("watch") != "" {
		method = "WATCH"
	} else if method == http.MethodGet && !isOne {
		method = "LIST"
	}
	return method + " " + kind
}

func (p *proxy) setHook(hook func(*http.Request) int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.hook = hook
}

func (p *proxy) setAnswer(answer func(http.ResponseWriter, *http.Request) bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.answer = answer
}

func (p *proxy) count(verb string) int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.counts[verb]
}

func (p *proxy) done(verb string) int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.dones[verb]
}

// lists is the number of lists of all kinds.
func (p *proxy) lists() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	sum := 0
	for verb, count := range p.counts {
		if strings.HasPrefix(verb, "LIST") && verb != "LIST " { // without a kind: discovery
			sum += count
		}
	}
	return sum
}

// writes is the number of requests that change something, events left out.
func (p *proxy) writes() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	sum := 0
	for verb, count := range p.counts {
		isRead := strings.HasPrefix(verb, "GET") || strings.HasPrefix(verb, "LIST") ||
			strings.HasPrefix(verb, "WATCH")
		if !isRead && !strings.HasSuffix(verb, "events") && !strings.HasSuffix(verb, " ") {
			sum += count
		}
	}
	return sum
}

// away makes the API server unreachable for the operator, open watches included.
func (p *proxy) away(span time.Duration) {
	p.setHook(func(*http.Request) int { panic(http.ErrAbortHandler) })
	p.server.CloseClientConnections()
	time.Sleep(span)
	p.setHook(nil)
}
