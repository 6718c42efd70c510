// Package pki makes a job's authority and token, and the operator's certificate. The forms are
// those of src/paceline/wire/security/certificates.cc: ECDSA on P-256, X.509 v3, valid for a year, from an
// hour ago on for hosts whose clocks are behind.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"math/big"
	"net/url"
	"time"
)

const (
	validBefore = time.Hour
	validAfter  = 365 * 24 * time.Hour
	tokenBytes  = 32
)

// Authority is a job's CA in PEM form.
type Authority struct {
	CertificatePEM []byte
	KeyPEM         []byte
}

// NewToken returns 64 hex characters.
func NewToken() string {
	bytes := make([]byte, tokenBytes)
	rand.Read(bytes) // never fails
	return hex.EncodeToString(bytes)
}

// NewAuthority makes the CA of a job.
func NewAuthority(job string, now time.Time) (Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Authority{}, err
	}
	template, err := begin("paceline job "+job, now)
	if err != nil {
		return Authority{}, err
	}
	template.IsCA, template.MaxPathLenZero = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return Authority{}, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Authority{}, err
	}
	return Authority{CertificatePEM: encode("CERTIFICATE", der),
		KeyPEM: encode("PRIVATE KEY", keyDER)}, nil
}

// Certificate is what a process shows: of a server, or of a client with a URI.
type Certificate struct {
	Name   string
	Server bool
	URI    string
}

// Sign makes a key and its certificate, signed by the authority.
func (a Authority) Sign(subject Certificate, now time.Time) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(a.CertificatePEM, a.KeyPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template, err := begin(subject.Name, now)
	if err != nil {
		return tls.Certificate{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	if subject.Server {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		template.DNSNames = []string{subject.Name}
	} else {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	if subject.URI != "" {
		uri, err := url.Parse(subject.URI)
		if err != nil {
			return tls.Certificate{}, err
		}
		template.URIs = []*url.URL{uri}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, pair.Leaf, key.Public(),
		pair.PrivateKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der, pair.Certificate[0]}, PrivateKey: key}, nil
}

// Pool returns a certificate pool that has only the authority.
func Pool(certificatePEM []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(certificatePEM) {
		return nil, errors.New("the job's Secret has no certificate under ca.pem")
	}
	return pool, nil
}

func begin(name string, now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name[:min(len(name), 64)]},
		NotBefore:             now.Add(-validBefore),
		NotAfter:              now.Add(validAfter),
		BasicConstraintsValid: true,
	}, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
