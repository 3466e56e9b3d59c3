// An Aspire application with a Crosstown, for development and for tests: dotnet run
// The image is built in a checkout of Crosstown: docker build -t crosstown .
var builder = DistributedApplication.CreateBuilder(args);

var bus = builder.AddContainer("messaging", "crosstown")
    .WithBindMount("../orders.yaml", "/crosstown.yaml", isReadOnly: true)
    .WithEnvironment("CROSSTOWN_CONFIG", "/crosstown.yaml")
    .WithEnvironment("CROSSTOWN_STORE", "memory") // without this: in files, in a volume at /data
    .WithEnvironment("CROSSTOWN_VIRTUAL_TIME", "true")
    .WithEnvironment("CROSSTOWN_ALLOW_FAULTS", "true")
    .WithEndpoint(targetPort: 5672, scheme: "tcp", name: "amqp")
    .WithHttpEndpoint(targetPort: 5300, name: "http")
    .WithHttpHealthCheck("/health", endpointName: "http");

var amqp = bus.GetEndpoint("amqp");
var connection = builder.AddConnectionString("servicebus", ReferenceExpression.Create(
    $"Endpoint=sb://{amqp.Property(EndpointProperty.Host)}:{amqp.Property(EndpointProperty.Port)};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true"));

// A project that has builder.AddAzureServiceBusClient("servicebus") of Aspire.Azure.Messaging.ServiceBus:
// builder.AddProject<Projects.Orders>("orders").WithReference(connection).WaitFor(bus);

builder.Build().Run();
