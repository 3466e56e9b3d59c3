using System.Diagnostics;
using System.Net.Http.Json;
using System.Text.Json;
using Azure.Messaging.ServiceBus;
using Xunit;

/// <summary>A Crosstown for the tests of a class. The variable CROSSTOWN names the program, "crosstown" by default.</summary>
public sealed class CrosstownServer : IDisposable
{
    private readonly Process process;
    private readonly HttpClient http = new();

    public CrosstownServer()
    {
        var program = Environment.GetEnvironmentVariable("CROSSTOWN") ?? "crosstown";
        var entities = Environment.GetEnvironmentVariable("ENTITIES") ?? Path.Combine("..", "..", "..", "..", "orders.yaml");
        process = Process.Start(new ProcessStartInfo(program, ["test-server", "--config", entities]) { RedirectStandardInput = true, RedirectStandardOutput = true })!;
        var text = process.StandardOutput.ReadLine() ?? throw new InvalidOperationException($"{program} test-server has ended: standard error says why");
        var line = JsonDocument.Parse(text).RootElement;
        ConnectionString = line.GetProperty("connectionString").GetString()!;
        http.BaseAddress = new Uri(line.GetProperty("url").GetString()!);
        http.DefaultRequestHeaders.TryAddWithoutValidation("Authorization", line.GetProperty("authorization").GetString());
    }

    public string ConnectionString { get; }

    /// <summary>Moves the broker's time, by null not at all, and returns it.</summary>
    public async Task<DateTimeOffset> Clock(object? move = null)
    {
        using var answer = move is null ? await http.GetAsync("/$crosstown/clock") : await http.PutAsJsonAsync("/$crosstown/clock", move);
        answer.EnsureSuccessStatusCode();
        return (await answer.Content.ReadFromJsonAsync<JsonElement>()).GetProperty("now").GetDateTimeOffset();
    }

    public void Dispose()
    {
        process.StandardInput.Close(); // this ends the process
        process.WaitForExit();
    }
}

/// <summary>An order workflow against a Crosstown of the test's own.</summary>
public class OrdersTests(CrosstownServer bus) : IClassFixture<CrosstownServer>
{
    private static readonly TimeSpan Patience = TimeSpan.FromSeconds(5);

    [Fact]
    public async Task AnOrderThatFailsIsTriedTwice()
    {
        await using var client = new ServiceBusClient(bus.ConnectionString);
        await client.CreateSender("orders").SendMessageAsync(new ServiceBusMessage("tea"));
        var orders = client.CreateReceiver("orders");
        for (var i = 0; i < 2; i++)
        {
            await orders.AbandonMessageAsync(await orders.ReceiveMessageAsync(Patience));
        }
        var dead = client.CreateReceiver("orders", new ServiceBusReceiverOptions { SubQueue = SubQueue.DeadLetter });
        var order = await dead.ReceiveMessageAsync(Patience);
        Assert.Equal("MaxDeliveryCountExceeded", order.DeadLetterReason);
        await dead.CompleteMessageAsync(order);
    }

    [Fact]
    public async Task AReminderComesWhenItIsDue()
    {
        await using var client = new ServiceBusClient(bus.ConnectionString);
        var due = (await bus.Clock()).AddDays(14);
        await client.CreateSender("reminders").ScheduleMessageAsync(new ServiceBusMessage("pay"), due);
        await bus.Clock(new { advance = "P14D" });
        var reminders = client.CreateReceiver("reminders");
        var reminder = await reminders.ReceiveMessageAsync(Patience);
        Assert.True(reminder.EnqueuedTime.AddMilliseconds(1) >= due);
        await reminders.CompleteMessageAsync(reminder);
    }
}
