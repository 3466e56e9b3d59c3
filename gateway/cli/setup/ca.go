package setup

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/devca"
)

func CA(environ []string) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "ca",
		Short: "Print the certificate of the development CA in PEM; create the CA if there is none",
		Example: `  crosstown ca > crosstown-ca.pem
  SSL_CERT_FILE=crosstown-ca.pem       ./a-go-program
  NODE_EXTRA_CA_CERTS=crosstown-ca.pem node program.js`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if dir == "" {
				return errors.New("cannot determine the directory of the CA, because neither XDG_DATA_HOME nor HOME is set: set --data DIR")
			}
			pem, err := devca.CA(dir)
			if err != nil {
				return err
			}
			_, err = c.OutOrStdout().Write(pem)
			return err
		},
	}
	c.Flags().StringVar(&dir, "data", config.Data(environ), "data `directory` of the gateway")
	return c
}
