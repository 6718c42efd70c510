package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestAToken(t *testing.T) {
	first, second := NewToken(), NewToken()
	if !regexp.MustCompile("^[0-9a-f]{64}$").MatchString(first) || first == second {
		t.Errorf("%s, %s", first, second)
	}
}

func TestBothSidesProveThemselvesByTheJobsAuthority(t *testing.T) {
	now := time.Now()
	authority, err := NewAuthority("train", now)
	if err != nil {
		t.Fatal(err)
	}
	other, _ := NewAuthority("train", now)
	server, _ := authority.Sign(Certificate{Name: "master.paceline.internal", Server: true}, now)
	operator, _ := authority.Sign(Certificate{Name: "operator", URI: "paceline://operator"}, now)
	stranger, _ := other.Sign(Certificate{Name: "operator", URI: "paceline://operator"}, now)
	roots, err := Pool(authority.CertificatePEM)
	if err != nil {
		t.Fatal(err)
	}
	if err := handshake(roots, server, operator); err != nil {
		t.Errorf("the operator was refused: %v", err)
	}
	if handshake(roots, server, stranger) == nil {
		t.Error("another job's certificate was taken")
	}
	leaf, _ := x509.ParseCertificate(operator.Certificate[0])
	if leaf.Subject.CommonName != "operator" || leaf.URIs[0].String() != "paceline://operator" ||
		leaf.NotBefore.After(now.Add(-time.Hour+time.Minute)) {
		t.Errorf("certificate: %+v", leaf)
	}
}

func handshake(roots *x509.CertPool, server, client tls.Certificate) error {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	done := make(chan error, 1)
	go func() {
		done <- tls.Server(far, &tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: roots,
			ClientAuth: tls.RequireAndVerifyClientCert, MaxVersion: tls.VersionTLS12}).Handshake()
		far.Close()
	}()
	err := tls.Client(near, &tls.Config{Certificates: []tls.Certificate{client}, RootCAs: roots,
		ServerName: "master.paceline.internal", MaxVersion: tls.VersionTLS12}).Handshake()
	near.Close()
	if other := <-done; err == nil {
		err = other
	}
	return err
}

// The master reads these files with OpenSSL.
func TestOpenSSLReadsTheAuthority(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("SKIPPED: no openssl here")
	}
	authority, err := NewAuthority("train", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for input, arguments := range map[string]string{
		string(authority.CertificatePEM): "x509 -noout -text",
		string(authority.KeyPEM):         "pkey -noout -text",
	} {
		command := exec.Command("openssl", strings.Fields(arguments)...)
		command.Stdin = strings.NewReader(input)
		output, err := command.CombinedOutput()
		if err != nil || !strings.Contains(string(output), "P-256") {
			t.Errorf("openssl %s: %v\n%s", arguments, err, output)
		}
	}
}
